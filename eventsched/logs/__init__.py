"""What the process says on stderr: how lines look, and what never stands in them.

Start with ``output``; ``narration`` makes lines of committed records, ``masking`` hides secrets.
The log that decisions stand in is ``eventsched.eventlog``.
"""
