"""Lists and watches: the objects of an API server, kept up to date.

Start with ``cluster_store``, which has a ``reflector`` and a ``resource_store`` for each resource.
"""
