"""From the chosen node to the bound pod: Reserve, Permit, PreBind, Bind, and the way back.

Start with ``reserve_permit_bind``, then ``binding_cycle`` for what happens until the outcome.
Imports ``framework`` and ``queueing``; preemption and the engine import it.
"""
