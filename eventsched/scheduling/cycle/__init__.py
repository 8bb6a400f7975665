"""Judging the nodes for one pod: filters, scores and the choice, without placing it.

Start with ``judgement``. ``equivalence`` keeps the columns of pods that are alike up to date,
``class_cache`` the classes of such pods;
``pod_specific_verdicts`` adds what differs from pod to pod; ``dry_run`` asks what nodes would say
with other pods on them. Imports ``framework``; queueing, binding and preemption build on it.

An example: a pod that requests 2 CPUs and 2 GiB, and three empty nodes (rows 0, 1, 2) with 1, 4
and 8 CPUs and 8 GiB each. The columns have one value for each row:

    keys        [327685, 2147483647, 2147483647]   EquivalenceClass.keys
    raw scores  NodeResourcesFit [0, 62, 75], NodeResourcesBalancedAllocation [0, 68, 75],
                TaintToleration and ImageLocality [0, 0, 0]
    totals      [-1, 430, 450]

- 327685 is 5 * 65536 + 5: NodeResourcesFit, at filter position 5, refused row 0 with its code 5.
  2147483647 is KEY_PASSES. ``Judgement.verdict(327685)`` asks the plugin to explain the code:
  ``Verdict("NodeResourcesFit", UNRESOLVABLE, ("Insufficient cpu",))``.
- Normalised, TaintToleration's scores are 100 on feasible nodes, and its weight is 3: row 2 has
  300 + 75 + 75 + 0. Row 0 is not feasible: -1. ``choice`` takes row 2.
- ``judgement_recording`` gives the verdict the stream's number 1 (``VerdictDefined``). The decision
  says ``counts=((1, 1),)``: one node with verdict 1. Its detail has ``codes=[1, 0, 0]`` (0: passes)
  and the raw scores. The next decision of the class stores only the rows that have changed.
"""
