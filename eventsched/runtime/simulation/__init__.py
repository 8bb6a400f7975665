"""A simulation: the engine, a log and a simulated cluster, run in virtual time to the end.

Start with ``simulation``. ``outcome`` summarizes a run; ``resumption`` continues one from its log.
"""
