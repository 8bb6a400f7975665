"""The commands below ``eventsched db`` that have a module of their own.

``eventsched.cli.db`` adds each by its ``add_action``, and holds the short ones. A new one goes
here, as ``db_NAME``.
"""
