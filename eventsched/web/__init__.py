"""What a running scheduler says over HTTP: health, metrics, its configuration.

Start with ``pages``. The pages only read: the scheduler's state through ``status.ProcessStatus``,
measured durations through ``metrics``, counts of committed records through ``record_counters``.
Only the level of the process's log lines can be changed. ``http`` is the listening side.
``eventsched.process`` imports this package.
"""
