"""The command line: one module a command; parse, call, print.

Start with ``main``. ``log_access`` has the options that name a log, and finds it; a command's text
is made in ``eventsched.output``. Commands end with a code of ``eventsched.process.exit_codes``.
Only the kubectl plugin imports this package.
"""
