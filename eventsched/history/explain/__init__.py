"""Explains from the log alone why a pod is on its node, or on none.

Start with ``explanation``. ``evidence`` reads the log for it, ``record_text`` describes a record in
one line, ``conclusions`` has the reason and the next step, and ``workloads`` groups the pods of a
Deployment or Job.
"""
