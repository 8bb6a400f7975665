"""What can be said about a database without reading the whole log.

``log_statistics`` counts and measures it: streams, tables, growth. ``database_checks`` lists the
checks of ``eventsched db doctor``: functions from ``database_facts``, which SQL reads once, to
``database_findings``. It imports ``eventsched.eventlog.postgres``; the command line imports it.
"""
