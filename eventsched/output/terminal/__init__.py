"""How answers look on a terminal: tables, bars, colours, progress, and what ASCII can show.

``display`` has them together for one output. Output that is not a terminal is plain text.
"""
