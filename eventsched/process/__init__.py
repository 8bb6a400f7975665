"""The composition root: the parts of a running process put together.

Start with ``service``, the process behind ``eventsched run``; ``service_plan`` says what it runs.
``settings`` has the scheduler's own settings; ``kubernetes`` connects a leader to a real cluster.
Only the command line imports it.
"""
