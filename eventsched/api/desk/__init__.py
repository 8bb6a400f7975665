"""What requests are answered from: the desk, a request, an operation; and the answers about the
present or, with ``at``, about the past.

Start with asked.py. The operations (eventsched/api/operations.py) are rows of these types.
"""
