"""Rules of pod affinity and topology spread, by domain."""
