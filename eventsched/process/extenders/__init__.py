"""Extenders on both sides: the clients that ask those of a configuration, and the requests of other
schedulers that this process answers as an extender."""
