"""What ``queue`` prints, as text and as JSON.

``queue_output`` has the pods that wait and those that were woken too late, ``anomaly_output`` has
what goes wrong, and ``group_keys`` the names of groups of pods. The HTTP API answers the same.
"""
