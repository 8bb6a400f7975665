"""The event log: the port, and its implementations."""
