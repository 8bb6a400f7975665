"""The event log: append-only, hash-chained, with one writer per stream.

Start with ``port`` (the interface that the other packages use) and ``chain`` (how batches are
hashed). ``memory`` and ``postgres`` implement the port; ``schema`` migrates a database;
``embedded`` runs a private Postgres server; ``database`` chooses between a URL and the embedded
server; ``inspection`` measures and checks a database; ``archive`` writes and reads Parquet files;
``union`` lets one database answer for several servers. Imports ``eventsched.domain``; runtime,
history and the command line import it.
"""
