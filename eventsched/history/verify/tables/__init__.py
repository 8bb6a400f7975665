"""Verifies the rows that the log's records have in other tables: computes them from the records
and compares. Start with ``verified_rows``. Like all of verification it imports nothing of the
scheduler.
"""
