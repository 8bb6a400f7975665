"""Decisions, made purely: from a pod and the state to records.

Start with ``engine`` (stimuli in, events out), then ``scheduling_cycle`` (one attempt). The
packages import downwards only: ``preemption``, ``binding``, then ``queueing`` beside ``cycle``,
``config``, ``framework``. ``rules`` is for plugins alone. Imports ``eventsched.domain``; plugins,
the runtime and history import it.
"""
