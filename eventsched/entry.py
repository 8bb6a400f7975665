"""Where the process begins, as ``eventsched`` and as ``python -m eventsched``."""

from eventsched import signals


def main() -> int:
    """Runs the command of the command line; the exit code."""
    signals.install()
    # Only now, for it takes seconds on a busy machine.
    from eventsched.process.exit_codes import STOPPED

    try:
        from eventsched.cli.main import main as command

        return command()
    except KeyboardInterrupt:  # while it was imported
        return STOPPED
