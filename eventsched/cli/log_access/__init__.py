"""Which log a command reads, and where in it: the options that say so, and the log that they name.

Start with ``database_options`` (a database, or an embedded server's folder) and ``log_at`` (a file
or an archive as well, and a position). ``loaded_logs`` and ``served_log`` put such files into a
database for commands that answer every question; ``database_places`` is about databases that
results go to. Commands of ``cli`` import this package.
"""
