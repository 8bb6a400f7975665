"""NUMA zones of nodes as columns.

Start with ``zone_columns``, which keeps them; ``alignment`` says whether pods fit, ``zone_scores``
how well. For plugins; nothing else reads it.
"""
