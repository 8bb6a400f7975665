"""The pods of a workload (a Deployment, Job, …), counted by the reason why they are not on a node.

A database has a table of the pods that exist; other logs are read once.
"""
