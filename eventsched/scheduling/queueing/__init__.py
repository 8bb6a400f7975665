"""The scheduling queue: which pod is next, and what moves a pod between the queues.

Start with ``queue_index`` (order, timers, wake-ups), then ``scheduling_queue`` (why a pod moves).
An ``engine_step`` applies each record to the state at once and collects it for the log.
Imports ``framework``; binding, preemption and the engine import it.
"""
