"""The adapter to a live cluster: lists and watches the objects of its API server, and writes to it.

Each package imports only those to its right: ``lease``, ``calls``, ``watch``, ``http``.
"""
