"""Rules that the volume plugins share. For plugins only.

Start with ``volume_plan``: what happens to a pod's claims on each node.
"""
