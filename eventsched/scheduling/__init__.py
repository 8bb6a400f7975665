"""The framework, the scheduling cycle, the queue and the profiles: decisions, made purely."""
