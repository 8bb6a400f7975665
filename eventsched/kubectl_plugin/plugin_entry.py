"""The entry point of ``kubectl-eventsched``."""

import sys

from eventsched.process.exit_codes import BAD_INPUT, STOPPED


def main() -> int:
    """Runs the command that the command line names; returns its exit code."""
    try:
        from eventsched.kubectl_plugin.plugin_commands import main as command

        return command()
    except ModuleNotFoundError as missing:
        remedy = "install it: pip install 'eventsched[cluster]'"
        print(f"kubectl eventsched: needs the package {missing.name}; {remedy}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:  # during the import
        return STOPPED
