"""Listening: connections, TLS, deadlines and limits of every port.

Start with ``listener``. Knows nothing of a scheduler; the pages of ``eventsched.web`` stand on it.
"""
