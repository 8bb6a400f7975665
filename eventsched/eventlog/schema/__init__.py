"""The tables of the log, and their migrations.

Start with ``log_tables``. ``migrations`` upgrades and checks a database. ``revisions`` has the
functions that the revisions in the top-level folder ``migrations`` share.
"""
