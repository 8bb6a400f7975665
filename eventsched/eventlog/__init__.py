"""The event log: append-only, chained by hashes, with one writer a stream.

Start with ``port`` (what a log is to everybody else) and ``chain`` (how batches hang together).
``memory`` and ``postgres`` implement the port; ``schema`` migrates a database; ``embedded`` runs a
Postgres of our own; ``database`` chooses between a URL and the embedded one. Imports
``eventsched.domain``; runtime, history and the command line import it.
"""
