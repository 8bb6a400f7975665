"""The log in Postgres: its one writer, and those who read or follow it.

Start with ``writer`` (fenced, idempotent, one round trip a batch) and ``reader``. ``tail`` follows
a stream for a standby. Imports ``schema`` and the modules of ``eventsched.eventlog``.
"""
