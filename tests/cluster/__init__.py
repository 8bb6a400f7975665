"""A real control plane on loopback, and the scheduler against it."""
