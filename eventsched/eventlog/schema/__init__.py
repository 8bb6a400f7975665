"""The tables of the log and the way from one version of them to the next.

Start with ``log_tables``; ``migrations`` upgrades and checks a database; ``revisions`` has what the
files of the top-level folder ``migrations`` share.
"""
