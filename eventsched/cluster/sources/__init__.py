"""Sources of nodes, pods and other objects that are not an API server.

Start with ``load``, which reads manifests, openb lists or a generated load as one ``Source``.
"""
