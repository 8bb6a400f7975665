"""The leader of a stream: the loop of a live scheduler, without its input and output.

Start with ``leader``; ``leader_messages`` defines its messages and requests; ``followed_stream``
is a replica's copy of the stream. docs/architecture.md says which object owns which state, and
traces one pod. Imports ``effects``; ``live`` runs it on an event loop.
"""
