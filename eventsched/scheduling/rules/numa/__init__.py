"""NUMA zones of nodes as columns. For plugins only.

Start with ``zone_columns``.
"""
