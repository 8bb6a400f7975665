"""Questions to a log, and their answers as plain data: what the HTTP API answers.

Start with ``LoggedStream`` (streams.py). Each question is a function of a stream and of a
``Visibility``: what the one who asks may see. Answers are structs of answer_shapes.py, or
the documents that commands print with ``-o json``. Nothing here knows HTTP.
"""
