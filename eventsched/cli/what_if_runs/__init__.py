"""``eventsched replay --what-if``: history decided again under other rules, once or as a grid.

Start with ``what_if``, which ``eventsched.cli.replay`` calls. ``what_if_grid`` runs several
configurations, ``stored_what_if`` keeps a run as a stream; the pages and ``serve`` use it too.
"""
