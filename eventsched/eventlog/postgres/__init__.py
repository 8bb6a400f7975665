"""The log in Postgres: its only writer, its readers, and the replicas that follow it.

Start with ``writer`` (fenced, idempotent, one round trip per batch) and ``reader``. ``tail``
follows a stream for a standby. Imports ``schema`` and the modules of ``eventsched.eventlog``.
"""
