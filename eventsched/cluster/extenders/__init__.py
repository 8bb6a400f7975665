"""Extenders as servers: extender/v1 JSON over HTTP, as a client and as the one that is asked.

Start with ``client``; ``wire_format`` has the JSON of our requests, ``served_requests`` that of the
requests that other schedulers send us.
"""
