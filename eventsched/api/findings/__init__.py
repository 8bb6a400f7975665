"""The operations about what stands out in a log, read from rows.

Start with ``FINDING_OPERATIONS`` (finding_operations.py). The application serves them; they import
the table's types from ``eventsched.api.operations`` and the answers from eventsched/questions.
"""
