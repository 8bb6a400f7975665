"""``eventsched keys``: keys that sign checkpoints of the log."""

import argparse
from pathlib import Path
from typing import Any

from eventsched.cli.answers.answer_forms import add_output_option, print_answer
from eventsched.eventlog.signing_keys import (
    generate,
    key_id,
    origin,
    pem,
    raw,
    read_public_key,
    verifier_key,
)


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "keys",
        help="make or show a key that signs checkpoints of the log",
        description="Ed25519 keys that sign checkpoints of the log (docs/verification.md).",
    )
    actions = parser.add_subparsers(title="actions", dest="action", required=True)
    generated = actions.add_parser(
        "generate",
        help="make a key, and print the public key",
        description="Writes a new private key to a file that only its owner may read, and prints "
        "the public key. Keep the file where the owner of the database cannot read it.",
    )
    generated.add_argument("file", type=Path, metavar="FILE", help="a new file")
    add_output_option(generated, "text", pages=False)
    generated.set_defaults(run=_generate)
    shown = actions.add_parser(
        "show",
        help="print the public key and its ids",
        description="Prints the key's id, the public key, and the key as verifiers of signed notes "
        "take it, which depends on the stream.",
    )
    shown.add_argument(
        "file", type=Path, metavar="FILE", help="a private or a public key (Ed25519, PEM)"
    )
    shown.add_argument(
        "--stream", action="append", default=[], metavar="NAME",
        help="also print the verifier key of this stream's checkpoints; may be repeated",
    )  # fmt: skip
    add_output_option(shown, "text", pages=False)
    shown.set_defaults(run=_show)


def _generate(options: argparse.Namespace) -> int:
    public = pem(generate(options.file))
    print_answer({"public_key": public}, public.rstrip("\n"), options.output)
    return 0


def _show(options: argparse.Namespace) -> int:
    key = read_public_key(options.file)
    public = raw(key)
    verifiers = {stream: verifier_key(origin(stream), public) for stream in options.stream}
    lines = [f"verifier key: {each}" for each in verifiers.values()]
    text = "\n".join((f"key id: {key_id(public)}", *lines, pem(key).rstrip("\n")))
    document = {"key_id": key_id(public), "public_key": pem(key), "verifier_keys": verifiers}
    print_answer(document, text, options.output)
    return 0
