"""What can be said about a database without reading the whole log.

``log_statistics`` counts and measures it: streams, tables, growth. It imports
``eventsched.eventlog.postgres``; the command line imports it.
"""
