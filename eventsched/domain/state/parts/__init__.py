"""Parts of the scheduler's state that do not refer to the rest of it.

Reservations, nominations and evictions, questions to extenders, and which of a plugin's memory is
in use. ``state_attributes`` puts them together.
"""
