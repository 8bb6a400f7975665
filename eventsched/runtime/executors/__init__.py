"""Runs independent tasks side by side, behind one small port.

Start with ``task_executor``, the port. ``process_executor`` implements it with processes of this
machine.
"""
