"""Output of ``eventsched replay --what-if``: the differences of two histories, and the progress.

Start with ``what_if_output``.
"""
