"""Lists of pods: which rows a client sees, in which order, and whose pods they are.

Start with ``pods_page`` (pod_rows.py), which reads table pod_now. Answers as of the past have the
same rows (eventsched/questions/past). The API uses it; it may import what eventsched/questions may.
"""
