"""A soak of two replicas on a real control plane under random faults, and the judge of its history.

``judge.py`` decides; it imports nothing of the project and nothing outside the standard library.
``__main__.py`` runs the soak (``make soak-history``); the other modules inject the faults, make the
load and write the history.
"""
