"""Completion of names in a shell: pods, nodes, namespaces, streams, positions of decisions.

When TAB is pressed, the script of ``eventsched completion`` calls ``eventsched __complete KIND
LINE`` (``shell_functions``). ``typed_line`` reads the line, ``stored_names`` asks the database, and
``name_offer`` prints what was found in time. Nothing is imported here that starts slowly.
"""
