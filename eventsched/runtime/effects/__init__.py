"""Effects: what leaves once its records are committed, and how each is followed to its end.

Start with ``batches`` (which effects wait for which batch) and ``tracker`` (one for each kind of
effect). ``event_outbox`` writes Events and pod status, in order and never in the way.
Imports ``reconciliation``; the leader and simulations import it.
"""
