"""What commands print: tables, progress, times, and the text of each answer.

A command parses and calls; how an answer looks is decided here.
"""
