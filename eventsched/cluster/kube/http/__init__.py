"""Requests to an API server: addresses, credentials, limits, and what refusals mean.

Start with ``api``. It imports none of its sister packages; watch, calls and lease import it.
"""
