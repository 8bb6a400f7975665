"""A live scheduler: the leader on an event loop, with a cluster and a database.

Start with ``replica`` (follow, stand for election, lead) and ``driver`` (one term). ``ports`` says
what is needed of others; ``database_client`` is the way to the log. ``eventsched.process`` puts it
together.
"""
