"""Leader election by a Lease.

Start with ``candidate``: the rules, without input and output; ``election`` carries them out.
"""
