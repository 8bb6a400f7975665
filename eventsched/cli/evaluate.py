"""``eventsched evaluate``: verdicts and scores on snapshots, in the conformance oracle's format."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from eventsched.domain.errors import InputError
from eventsched.runtime import evaluation
from eventsched.runtime.assembly import registry


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "evaluate",
        help="say where pods could go on given snapshots, and why",
        description="Judges the pending pods of each scenario against its objects; none is placed.",
    )
    parser.add_argument(
        "scenarios",
        type=Path,
        metavar="SCENARIOS.jsonl[.gz]",
        help='one {"id", "config", "objects", "pending"} a line',
    )
    parser.add_argument("-o", dest="output", type=Path, metavar="OUT", help="default: stdout")
    parser.add_argument(
        "--plugin",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.py",
        help="a file with plugins that the scenarios' configurations name",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Answers all scenarios; the output file appears only when all of them were read."""
    known = registry(options.plugin)
    answers = [
        json.dumps(
            evaluation.evaluate(line, f"{options.scenarios}: line {number}", known),
            separators=(",", ":"),
            ensure_ascii=False,
        )
        for number, line in enumerate(evaluation.lines(options.scenarios), 1)
    ]
    text = "".join(f"{answer}\n" for answer in answers)
    if options.output is None:
        sys.stdout.write(text)
    else:
        _write(options.output, text)
    return 0


def _write(path: Path, text: str) -> None:
    """Whole or not at all: through a file beside it."""
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError as problem:
        beside.unlink(missing_ok=True)
        raise InputError(
            str(path), f"cannot be written: {problem.strerror}", "name a file in a folder you own"
        ) from problem
