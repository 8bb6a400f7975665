"""Runs independent tasks side by side, behind one small port.

Start with ``task_executor``, the port. ``process_executor`` implements it with processes of this
machine, ``dask_executor`` and ``ray_executor`` with a cluster; ``executor_choice`` makes the one
that a user names.
"""
