"""Making room for a pod that found no node: candidates, victims, budgets, nominations.

Start with ``evaluator``. ``nomination_step`` carries out the PostFilter result, and
``preemption_recording`` turns it into a record. The rules follow upstream's
pkg/scheduler/framework/preemption. Imports every package below it; only the engine imports it.
"""
