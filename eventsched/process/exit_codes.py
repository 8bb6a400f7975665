"""Exit codes. 0: fine. 1: the answer is no (differences, not schedulable). 2: bad input, said in
one line that names place, problem and remedy. 3: the environment (database, cluster) is away."""

BAD_INPUT = 2
DIFFERS = 1
ENVIRONMENT = 3
STOPPED = 130
"""By Ctrl-C, as shells expect."""
# 143 (128 + SIGTERM): SIGTERM ended a command that has nothing to end in order (signals.py).
