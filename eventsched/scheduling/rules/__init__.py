"""Rules that several plugins share: selectors and tolerations over columns, resource scoring.

``topology`` has the rules of pod affinity and spreading, ``volumes`` those of claims and volumes,
``numa`` those of NUMA zones. Only plugins import these packages: the engine knows no rule.
"""
