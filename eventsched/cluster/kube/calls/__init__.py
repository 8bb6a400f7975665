"""Writes to an API server: binds, evictions, Events, pod status, volumes.

Start with ``dispatch``. ``request_bodies`` builds the JSON of every request, without I/O.
"""
