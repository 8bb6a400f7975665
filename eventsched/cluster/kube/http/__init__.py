"""Requests to an API server: addresses, credentials, limits, and what refusals mean.

Start with ``api``. Imports nothing of its sister rooms; watch, calls and lease import it.
"""
