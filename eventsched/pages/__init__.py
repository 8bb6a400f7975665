"""The web page: what the HTTP API answers, for people.

Start with ``screens``: one row per page. ``site`` serves them, each made from the answers to some
requests to the API (``api_call``), by a template of ``templates`` (``rendering``). ``form_posts``
is for pages with forms. Scripts and styles are in ``static`` (``assets``). A page knows only the
API's JSON, never the log.
``eventsched.api.server`` imports this package.
"""
