"""Measures schedulers against a real API server, with upstream's own workload files.

``python -m benchmarks.cluster`` runs each workload with kube-scheduler and with eventsched, in
turn, each on a control plane of its own that starts empty, and prints what each did, and ratios.
"""
