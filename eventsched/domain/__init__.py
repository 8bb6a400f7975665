"""Pure data: Kubernetes objects, the records of a log, nodes as columns, and the scheduler's state.

Start with ``records`` (what a log holds) and ``state`` (the one ``apply`` that changes a state).
The packages import downwards only: ``state``, ``nodes``, ``records``, ``objects``. The modules at
this level are small and general: errors, units, Go's integers, draws. Every package may import this
one; it imports nothing else of eventsched, and does no input or output.
"""
