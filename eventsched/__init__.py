"""eventsched: the Kubernetes scheduler that remembers.

The public names for people who write plugins are in :mod:`eventsched.scheduling.framework`;
the layers are described in docs/architecture.md.
"""

__version__ = "0.1.0"
