"""Queries to an engine. They log nothing and place nothing.

``placement_query``: where would a pod go now? ``scenario_evaluation``: the verdicts for files of
scenarios. ``logged_assembly``: the profiles that a log was written with.
``kept_nodes``: the nodes of now for live pages.
"""
