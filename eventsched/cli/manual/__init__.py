"""The manual: the parser's help as pages.

Start with ``command_pages``, which reads the parser into values; ``roff`` writes one as a man page,
website/generated_pages.py as Markdown for the documentation site. Only commands import this.
"""
