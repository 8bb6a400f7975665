"""What would have happened under another configuration, for clients: a configuration as it is
typed, checked, and history decided again with it; or with a small change, on a given node.

Start with ``what_if_answer`` (what_if_answer.py), which takes minutes and much memory, so the API
calls it in a process of its own. ``why_not_search`` decides about one attempt again.
"""
