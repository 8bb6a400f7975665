"""The scheduler's state, and ``apply``, the only code that changes it.

Start with ``scheduler_state``. A state is the log read back: live run, restart, replay and what-if
apply the same records. ``snapshot`` stores a state as bytes; ``digest`` compares two of them.
The top package of ``eventsched.domain``: no other package there imports it.
"""
