"""The entry point of ``kubectl_complete-eventsched``, which kubectl runs when TAB is pressed.

kubectl (1.26 and later) passes the words after ``kubectl eventsched``, the begun one last. It reads
an offer a line, with a description after a tab, and then a colon and a directive of cobra:
https://github.com/kubernetes/sample-cli-plugin#shell-completion.
"""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from eventsched.cli.object_names.bounded_search import found_in_time

_NO_FILES = ":4"
_FILES = ":0"


def offer_lines(words: Sequence[str]) -> list[str]:
    """What kubectl reads for the words of a command line. Never raises."""
    try:
        from eventsched.kubectl_plugin.plugin_commands import parser
        from eventsched.kubectl_plugin.word_completion import FILES, completion_of
    except ModuleNotFoundError:  # the extra is missing; the command says so
        return [_NO_FILES]
    wanted = completion_of(parser(), words or [""])
    if wanted.kind == FILES:
        return [_FILES]
    lines = [f"{name}\t{about}".rstrip() for name, about in wanted.offered]
    if wanted.kind:

        def ask() -> list[str]:
            import asyncio

            from eventsched.kubectl_plugin.cluster_names import cluster_names

            return [*asyncio.run(cluster_names(wanted.kind, wanted.word, wanted.options))]  # type: ignore[arg-type]

        lines += found_in_time(ask)
    return [*(f"{wanted.before}{line}" for line in lines), _NO_FILES]


def main() -> NoReturn:
    """Prints the offers and ends the process, whatever still hangs. Nothing else is printed, and
    nothing read: a kubeconfig may run a program that would."""
    answer = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    text = "".join(f"{line}\n" for line in offer_lines(sys.argv[1:]))
    try:
        with os.fdopen(answer, "w", encoding="utf-8") as kubectl:
            kubectl.write(text)
    finally:
        os._exit(0)
