"""Why a pod is where it is, or nowhere: told from the log alone.

Start with ``explanation``; ``evidence`` is what it is told from, ``record_text`` says a record in
one line, ``workloads`` groups the pods of a Deployment or Job.
"""
