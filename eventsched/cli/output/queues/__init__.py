"""What ``queue`` prints, as text and as JSON.

``queue_output`` has the pods that wait and those that were woken too late, ``anomaly_output`` has
what goes wrong. The HTTP API answers the same.
"""
