"""The embedded Postgres: a private server on a data folder, for trials and tests.

Start with ``embedded_server``. ``postmaster`` runs one server, ``programs`` finds its programs.
"""
