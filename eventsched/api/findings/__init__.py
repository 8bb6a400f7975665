"""The operations about what stands out in a log, read from rows.

Start with ``FINDING_OPERATIONS`` (finding_operations.py). ``eventsched.api.operations``
has them in its table; their answers come from eventsched/questions.
"""
