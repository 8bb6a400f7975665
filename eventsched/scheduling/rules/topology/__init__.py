"""Rules of pod affinity and topology spread, by topology domain. For plugins only.

Start with ``spread_plans`` for spreading and ``affinity`` for a pod's own affinity terms.
"""
