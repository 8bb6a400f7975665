"""Leader election by a Lease.

Start with ``candidate``, which has the rules, without I/O. ``election`` applies them to an API
server.
"""
