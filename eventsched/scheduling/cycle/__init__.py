"""Judging the nodes for one pod: filters, scores and the choice, without placing it.

Start with ``judgement``. ``equivalence`` keeps the columns of pods that are alike up to date;
``pod_specific_verdicts`` adds what differs from pod to pod; ``dry_run`` asks what nodes would say
with other pods on them. Imports ``framework``; queueing, binding and preemption build on it.
"""
