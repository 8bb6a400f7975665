"""A simulated cluster in virtual time: pods arrive, are bound, run and end.

Start with ``cluster``; ``volume_controller`` does for volumes what a real cluster's controllers do.
"""
