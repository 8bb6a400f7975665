"""The leader of a stream: the loop of a live scheduler, without its input and output.

Start with ``leader``; ``leader_messages`` defines its messages and requests; ``catch_up``
reads the log before a term. Imports ``effects``; ``live`` runs it on an event loop.
"""
