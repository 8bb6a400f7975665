"""The adapter to a live cluster: lists and watches of its API server, and calls to it.

The rooms import downwards only: ``lease``, ``calls``, ``watch``, ``http``.
"""
