"""Clusters: real ones over the API server, one in memory, and the files that describe them.

Start with ``messages``: the requests of a live scheduler and their answers. ``translate`` turns
manifests into the domain's objects; ``sources`` reads files; ``in_memory`` and ``kube`` are the two
clusters; ``extenders`` speaks extender/v1. Imports ``eventsched.domain`` and the configuration; the
runtime imports it.
"""
