"""Verifies archives: Parquet files of a stream, alone or with the database that continues them.

Start with ``verified_archive``. Like all of verification it shares no code with what it checks.
"""
