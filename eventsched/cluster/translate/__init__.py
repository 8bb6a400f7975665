"""Kubernetes API objects (parsed JSON or YAML) as the domain's objects. Pure.

Start with ``manifest``. ``fields`` reads a value and knows the path to it, for the text of an
error.
"""
