"""``kubectl eventsched``: questions to a running scheduler, with the rights of a kubectl user.

``plugin_entry`` is where it begins, ``plugin_commands`` has the commands, ``decision_log`` is the
one that follows. ``service_proxy`` finds the scheduler's API and asks it through the API server,
``scheduler_access`` with the user's token. The answers are made by the API (docs/api.md); nothing
here reads a log. ``completion_entry`` completes the command line: ``word_completion`` reads the
parser, ``cluster_names`` asks for names.
"""
