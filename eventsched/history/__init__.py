"""What happened in a stream: explained, replayed and verified. Reads logs and writes none.

``explain``, ``replay`` and ``verify`` do not import each other, and ``verify`` shares no code with
what it checks. ``export`` writes a stream to a file, ``export_reader`` reads it. The command line
imports this package.
"""
