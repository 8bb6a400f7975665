"""The shell around the engine: what runs it, live or simulated, and lets its effects out.

Start with ``assembly`` (configuration and plugins become an engine), then ``simulation`` for
virtual time or ``leader`` and ``live`` for a real cluster. ``logbook`` is for a scheduler of one's
own. Imports everything below; ``eventsched.process`` and the command line import it.
"""
