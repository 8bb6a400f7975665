"""Extenders on both sides: those that a scheduler asks, and this process as one of them.

``extender_clients`` says what is kept for the extenders of a configuration, and binds through them;
``extender_server_requests`` makes stimuli of other schedulers' requests, and answers of outcomes.
"""
