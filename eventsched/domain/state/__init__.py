"""The scheduler's state, and ``apply``, the only code that changes it.

Start with ``scheduler_state``. A state is the log read back: live run, restart, replay and what-if
apply the same records. ``state_snapshot`` copies a state, ``snapshot`` stores it as bytes, and
``digest`` compares two of them.
The top package of ``eventsched.domain``: no other package there imports it.
"""
