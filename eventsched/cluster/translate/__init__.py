"""Turns Kubernetes API objects (parsed JSON or YAML) into the domain's objects. Pure.

Start with ``manifest``. ``fields`` reads values and keeps their paths for error messages.
"""
