"""A scheduler's state at one position of its log, as documents and manifests, and the differences
between two.

Start with ``state_document``. Nothing here reads a log: ``eventsched.runtime.queries.state_at``
gives the state.
"""
