"""Clusters: real ones over the API server, simulated ones, and the files that describe them.

Start with ``messages`` (what a live scheduler asks and is told). ``translate`` makes the domain's
objects of manifests; ``sources`` reads files; ``simulated`` and ``kube`` are the two clusters;
``extenders`` speaks extender/v1. Imports ``eventsched.domain`` and the configuration; the runtime
imports it.
"""
