"""Runs the engine, live or simulated, and executes its effects.

Start with ``assembly`` (configuration and plugins become an engine), then ``simulation`` for
virtual time or ``leader`` and ``live`` for a real cluster. ``logbook`` is for custom schedulers.
Imports everything below; ``eventsched.process`` and the command line import it.
"""
