"""Tools for assistants: programs that ask about a log in people's stead, by the Model Context
Protocol. ``eventsched mcp`` serves them.

Start with ``TOOLS`` (tools.py): each is an operation of the API. bounded_answers.py makes an answer
that is short enough, with the log positions that it rests on; stdio_server.py speaks the protocol.
"""
