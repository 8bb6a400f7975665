"""Answers as of a position of the log: which pods there were and where each stood, what happened in
the minute before, and a pod's story up to then.

Start with ``past_pods`` (past_pods.py), which makes rows like those of table pod_now from a folded
state. ``FoldedStates.past`` (eventsched/questions/states.py) keeps a few of them; the API asks it
for requests with ``at``. ``open_log`` says which position a text means.
"""
