"""Listening: connections, TLS, deadlines and limits of every port.

Start with ``listener``. Independent of the scheduler; the pages of ``eventsched.web`` use it.
"""
