"""The HTTP API: ``/api/v1``, read-only, over eventsched/questions.

Start with ``application`` (application.py). operations.py has a row for each path, from which
requests are dispatched and the OpenAPI document is made. docs/api.md describes it for clients.
"""
