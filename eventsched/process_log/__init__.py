"""Log lines on stderr: their format, and the secrets that are masked in them.

Start with ``output``; ``narration`` makes lines of committed records, ``masking`` hides secrets.
The event log of decisions is ``eventsched.eventlog``.
"""
