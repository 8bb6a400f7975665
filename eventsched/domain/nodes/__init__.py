"""The nodes as columns: one row for each node, numpy arrays over all rows.

Start with ``node_table``; ``node_views`` is what plugins see of it. The other modules are parts of
the table: ports, volumes and counts of pods by node. Everything here is derived from objects and is
not stored in the log. Imports ``objects`` and ``records``; ``state`` and all decisions import it.
"""
