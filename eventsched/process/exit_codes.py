"""Exit codes. 0: success. 1: the answer is no (differences, not schedulable). 2: bad input,
reported in one line that names place, problem and remedy. 3: the database or the cluster is
unavailable."""

BAD_INPUT = 2
DIFFERS = 1
ENVIRONMENT = 3
STOPPED = 130
"""Ended by Ctrl-C, as shells expect."""
# 143 (128 + SIGTERM): SIGTERM ended a command that needs no orderly end (signals.py).
