"""What is written to an API server: binds, evictions, Events, pod status, volumes.

Start with ``dispatch``. ``request_bodies`` has the JSON of every request, without input or output.
"""
