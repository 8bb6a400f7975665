"""The log held against the cluster: which news are new, and what a gap has hidden.

Start with ``seen_versions``, then ``takeover``. The lowest room of ``eventsched.runtime``.
"""
