"""The entry point of ``eventsched`` and ``python -m eventsched``."""

import os

from eventsched import signals


def main() -> int:
    """Runs the command that the command line names; returns its exit code."""
    signals.install()
    # numpy's BLAS would start a thread for each core. They spin for 0.1 s, and nothing here
    # multiplies matrices of floats.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Imported after the signal handlers are set: it takes seconds on a busy machine.
    from eventsched.process.exit_codes import STOPPED

    try:
        from eventsched.cli.main import main as command

        return command()
    except KeyboardInterrupt:  # during the import
        return STOPPED
