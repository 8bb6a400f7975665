"""What a running scheduler says over HTTP: health, metrics, its configuration.

It only reads: facts through ``status.Status``, counts of committed records through ``metrics``. One
thing can be changed, the level of the process's own log lines."""
