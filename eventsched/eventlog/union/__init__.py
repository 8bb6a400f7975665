"""A union of logs: a database whose views answer for the logs of several Postgres servers.

``union_members`` reads the option that names a server, ``member_facts`` asks the servers about
themselves, ``union_statements`` has the SQL, and ``union_database`` runs it. The union needs the
extensions postgres_fdw and dblink; the servers need nothing. It imports the other packages of
``eventsched.eventlog``; the command line imports it. docs/how-to/several-servers.md shows its use.
"""
