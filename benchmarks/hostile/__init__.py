"""Measures what one tenant's pods do to those of the others.

``python -m benchmarks.hostile`` runs each case with kube-scheduler and with eventsched, in turn, on
a control plane that starts empty: first innocent pods alone, then the same beside the case's pods.
It prints how long the innocent pods waited for a node in both, and the ratio.
"""
