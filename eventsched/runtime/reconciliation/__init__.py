"""Reconciliation: compares the log with the cluster, and finds out what is new.

Start with ``seen_versions``, then ``takeover``. The lowest package of ``eventsched.runtime``.
"""
