"""What would have happened: history decided again under other rules, in a closed or an open loop.

Start with ``closed_loop`` and ``open_loop``; ``history_run`` reads a log for both. ``rules`` are a
configuration and plugins, ``pod_fates`` and ``cluster_measures`` what is compared.
"""
