"""The extender protocol (extender/v1, JSON over HTTP), for both sides.

Start with ``client``, which calls extenders. ``wire_format`` has the JSON of these calls.
``served_requests`` has the JSON of the requests that other schedulers send to eventsched.
"""
