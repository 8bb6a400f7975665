"""Where nodes, pods and other objects come from, if not from an API server.

Start with ``load``: manifests, openb lists or a generator, as one simulated load.
"""
