"""The text and the JSON of answers, the same for the command line, the HTTP API and assistants.

Each module is about one kind of answer. What terminals show is in ``terminal``.
"""
