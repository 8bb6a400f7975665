"""A cluster in memory, in virtual time: pods arrive, are bound, run and end.

Start with ``cluster``. ``volume_controller`` simulates the controllers of volumes.
"""
