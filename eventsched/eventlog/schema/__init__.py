"""The tables of the log, and their migrations.

Start with ``log_tables``. ``migrations`` upgrades and checks a database. ``migration_files`` finds
the top-level folder ``migrations``, and ``revisions`` has the functions that its revisions share.
"""
