"""A live scheduler: the leader on an event loop, with a cluster and a database.

Start with ``replica`` (follow, run for leader, lead) and ``driver`` (one term). ``ports`` defines
what others implement; ``database_client`` connects to the log. ``eventsched.process`` puts it
together.
"""
