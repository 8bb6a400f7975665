"""The past of a stream: explained, decided again, verified. Reads logs, writes none.

``explain``, ``replay`` and ``verify`` do not know each other; ``verify`` shares no code with what
it checks. ``export`` writes a stream to a file, ``export_reader`` reads it. The command line
imports this package.
"""
