"""What-ifs of clients: few at a time, each in a process of its own, which ends with its client.

Start with ``WhatIfRuns`` (what_if_runs.py). ``what_if_worker`` is the process, ``worker_messages``
what it says; ``what_if_operations`` are the paths. The application uses it.
"""
