"""``eventsched evaluate``: where a pod would go now, and why; or whole files of scenarios in the
conformance oracle's format."""

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from eventsched.cli.answers.answer_forms import (
    add_pager_option,
    is_document,
    print_document,
    shown_json,
)
from eventsched.domain import near_names
from eventsched.domain.errors import InputError
from eventsched.output.evaluate_output import answer_json, answer_text
from eventsched.process.exit_codes import DIFFERS
from eventsched.process.settings import kept_annotations
from eventsched.runtime.assembly import assemble, registry
from eventsched.runtime.call_deadlines import Deadlines
from eventsched.runtime.queries import placement_query, scenario_evaluation

DESCRIPTION = """Says where a pod would go now, and what every plugin says about every node:

  kubectl get ns,nodes,pods,pc,svc,rs,sts,pdb,pvc,pv,sc,csinodes -A -o json |
      eventsched evaluate - --pod my-pod.yaml

Without --pod the file holds scenarios, one {"id", "config", "objects", "pending"} a line, and the
answers are lines of JSON in the format of the conformance oracle. Nothing is placed."""


_FORMS = ("table", "text", "wide", "json", "yaml")
"""Forms of the answer with --pod."""


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "evaluate",
        help="say where a pod would go now, and why",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="the cluster's objects as YAML or JSON (- is standard input), or SCENARIOS.jsonl[.gz]",
    )
    parser.add_argument(
        "--pod", metavar="FILE|NAME", help="a manifest, or a pod of the cluster: namespace/name"
    )
    parser.add_argument("--node", default="", metavar="NAME", help="show this node in any case")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="a KubeSchedulerConfiguration (with --pod)"
    )
    parser.add_argument(
        "-o",
        dest="output",
        metavar="FORMAT|OUT",
        help="with --pod: table, wide, json or yaml; for scenarios: the file to write "
        "(default: stdout)",
    )
    parser.add_argument(
        "--plugin",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.py",
        help="a file with plugins that the configuration names",
    )
    add_pager_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Answers about pods (exit code 1 where one of them would go nowhere), or all scenarios."""
    if options.pod is not None:
        return _inquire(options)
    if len(options.files) > 1 or options.config or options.node:
        raise InputError(
            "options",
            "no pod is asked about",
            "name it: --pod my-pod.yaml, or --pod namespace/name",
        )
    _scenarios(options.files[0], options)
    return 0


def _inquire(options: argparse.Namespace) -> int:
    if options.output not in (None, *_FORMS):
        raise InputError(
            f"-o {options.output}", "is not a format", "use table, wide, json or yaml with --pod"
        )
    assembly = assemble(options.config, options.plugin, Deadlines())
    snapshot = replace(
        placement_query.read(options.files, options.pod),
        annotations=kept_annotations(options.config),
    )
    unasked = [
        f"extender {extender.url_prefix} is not asked: its answer is left out"
        for extender in assembly.configuration.extenders
    ]
    for warning in (*assembly.warnings, *unasked, *snapshot.warnings):
        print(f"warning: {warning}", file=sys.stderr)
    nodes = {node.name for node in snapshot.nodes}
    if options.node and options.node not in nodes:
        remedy = near_names.offer(options.node, nodes)
        raise InputError(f"--node {options.node}", "is not a node of the cluster", remedy)
    answers = placement_query.ask(snapshot, assembly)
    if is_document(options.output):
        documents = [answer_json(answer) for answer in answers]
        shown = documents[0] if len(documents) == 1 else documents
        print_document(shown, options.output, indent=1)
    else:
        wide = options.output == "wide"
        texts = [answer_text(answer, wide=wide, node=options.node) for answer in answers]
        print("\n\n".join(texts))
    return 0 if all(answer.ranked for answer in answers) else DIFFERS


def _scenarios(path: Path, options: argparse.Namespace) -> None:
    """Answers all scenarios; the output file appears only when all of them were read."""
    plugins = registry(options.plugin)
    answers = [
        json.dumps(
            scenario_evaluation.evaluate(line, f"{path}: line {number}", plugins),
            separators=(",", ":"),
            ensure_ascii=False,
        )
        for number, line in enumerate(scenario_evaluation.lines(path), 1)
    ]
    text = "".join(f"{answer}\n" for answer in answers)
    if options.output is None:
        sys.stdout.write(shown_json(text))
    else:
        _write(Path(options.output), text)


def _write(path: Path, text: str) -> None:
    """Writes the file atomically, through a file beside it."""
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError as problem:
        beside.unlink(missing_ok=True)
        raise InputError(
            str(path), f"cannot be written: {problem.strerror}", "name a file in a folder you own"
        ) from problem
