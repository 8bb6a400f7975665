"""The leader of a stream: the loop of a live scheduler, without its input and output.

Start with ``leader``; ``leader_messages`` has what it is told and what it asks for; ``catch_up``
reads the log back before a term. Imports ``effects``; ``live`` runs it on an event loop.
"""
