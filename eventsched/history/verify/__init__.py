"""Verifies that a log is what was written. Deliberately shares no code with what it checks.

Start with ``verification``. docs/log-format.md specifies the format.
"""
