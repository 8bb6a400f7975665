"""A live scheduler: the leader of runtime/leader/leader.py on an event loop, with a cluster and a
log."""
