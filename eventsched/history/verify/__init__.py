"""Whether a log is what was written. Shares no code with what it checks, on purpose.

Start with ``verification``. The format that it checks against is docs/log-format.md.
"""
