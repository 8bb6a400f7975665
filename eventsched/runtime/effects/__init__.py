"""Effects: requests to the cluster that are made once their records are committed.

Start with ``batches`` (which effects wait for which batch) and ``tracker`` (one for each kind of
effect follows it to its outcome). ``event_outbox`` writes Events and pod status; nothing waits for
it.
Imports ``reconciliation``; the leader and simulations import it.
"""
