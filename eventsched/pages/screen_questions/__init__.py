"""What the screens ask: one module per screen, with the request to the API, and the same in SQL and
as a command.

Start with ``now_question``. ``eventsched.pages.screens`` has a row for each screen; like all pages
they know only the API's JSON.
"""
