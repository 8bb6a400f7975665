"""Extenders as servers: extender/v1 JSON over HTTP."""
