"""What a running scheduler says over HTTP: health, metrics, its configuration.

Start with ``pages``. The pages only read: facts through ``status.ProcessStatus``, counts of
committed records through ``metrics``. One thing can be changed, the level of the process's own log
lines. ``http`` is the listening side. ``eventsched.process`` imports this package.
"""
