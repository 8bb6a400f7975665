"""``eventsched explain``: why a pod is where it is, or nowhere; why a workload's pods wait."""

import argparse
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from eventsched.cli.answers.answer_forms import add_output_option, is_document, print_document
from eventsched.cli.log_access.archive_options import add_archive_option, archived_log
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError
from eventsched.domain.records.verdicts import Detail
from eventsched.domain.workload_kinds import POD, POD_GROUP
from eventsched.eventlog import database
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.evidence_until import explain_newest
from eventsched.history.explain.conclusions.headline import needs_closed_nodes, with_closed_nodes
from eventsched.history.explain.evidence import Evidence, ScannedEvidence, SearchedEvidence
from eventsched.history.explain.explanation import Explanation, NoPodError, explain
from eventsched.history.explain.stored_evidence import StoredEvidence
from eventsched.history.explain.workloads.pod_group import (
    GROUPS_PLUGIN,
    GroupMembers,
    group_members,
)
from eventsched.history.explain.workloads.scanned_workload import scanned_workload
from eventsched.history.explain.workloads.stored_workload import stored_workload
from eventsched.history.explain.workloads.workload import ExplainTarget, parse_target, with_step
from eventsched.history.export_reader import FileLog
from eventsched.output.explain_output import story_json, story_text
from eventsched.output.terminal.display import display_of_output
from eventsched.output.time_format import with_distance
from eventsched.output.workload_output import workload_json, workload_text
from eventsched.questions.past.open_log import OpenLog
from eventsched.runtime.queries.nodes_at import nodes_at
from eventsched.runtime.queries.state_at import FoldedState, state_at


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "explain",
        help="show why a pod is where it is, or why it is nowhere",
        description="Shows a pod's history from the log: where it waited and what moved it, each "
        "attempt, why that node, and why not the others. Of a workload (deploy/NAME, rs/, sts/, "
        "ds/, job/) it counts the pods that there are by the reason why they wait; of a pod group "
        "(group/NAME, or its name if no pod has it) it also says what holds it. A Deployment's "
        "pods are those of its ReplicaSets: a ReplicaSet is called DEPLOYMENT-HASH, and HASH is "
        "its pods' label pod-template-hash or, without that label, looks like one.",
    )
    parser.add_argument(
        "pod",
        metavar="POD|WORKLOAD",
        help="namespace/name, a name that is unique, or a uid; or a workload or pod group: "
        "deploy/NAME, group/NAME, namespace/deploy/NAME",
    )
    parser.add_argument("-n", "--namespace", metavar="NAMESPACE", help="of the pod or workload")
    parser.add_argument(
        "--attempt", type=int, metavar="N", help="the attempt to explain (default: the last one)"
    )
    parser.add_argument("--node", metavar="NODE", help="why not that node, or how it scored")
    parser.add_argument(
        "--why-not", metavar="NODE",
        help="a change of the pod or the cluster with which it lands on that node, and of which "
        "no part can be left out, found by deciding the attempt again",
    )  # fmt: skip
    parser.add_argument("--full", action="store_true",
        help="show everything, also of a pod with more than 1,000 records",
    )  # fmt: skip
    parser.add_argument(
        "--recompute", action="store_true",
        help="recompute the verdicts and scores of all nodes from the log, if only some or none "
        "are stored",
    )  # fmt: skip
    parser.add_argument(
        "--plugin", type=Path, action="append", default=[], metavar="FILE.py",
        help="with --recompute or --why-not, a file with plugins that the stream was written "
        "with; may be repeated",
    )  # fmt: skip
    add_database_options(parser)
    add_archive_option(parser, file_help="an exported log")
    add_output_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the explanation."""
    target = parse_target(options.pod, options.namespace)
    if options.file is not None:
        log = FileLog(options.file)
        return _explain_elsewhere(
            options, target, ScannedEvidence(log, log.stream), OpenLog(log, None)
        )
    if options.from_archive is not None:
        with archived_log(options) as (archived, reader):
            opened = OpenLog(archived, reader)
            return _explain_elsewhere(options, target, SearchedEvidence(archived), opened)
    with (
        database.reader_address(*database_of(options)) as address,
        closing(Reader(address, options.stream, keeps_connection=True)) as reader,
    ):
        return _explain_stored(options, target, reader)


def _explain_elsewhere(
    options: argparse.Namespace, target: ExplainTarget, evidence: Evidence, opened: OpenLog
) -> int:
    """Explains from a log that is not in a database alone."""
    if _is_workload(target, evidence):
        return _explain_workload(options, target, evidence, opened)
    try:
        return _explain(options, target, evidence, opened)
    except NoPodError as problem:
        return _explain_bare_group(options, target, evidence, opened, problem)


def _explain_stored(options: argparse.Namespace, target: ExplainTarget, reader: Reader) -> int:
    try:
        return _explain_elsewhere(options, target, StoredEvidence(reader), OpenLog(reader, reader))
    except NoPodError as problem:
        raise InputError(
            problem.where, f"{problem.problem}; {_freshness(reader)}", problem.remedy
        ) from None


_FRESHNESS = """
SELECT h.holder, h.epoch, h.next,
       (SELECT (extract(epoch FROM written_at) * 1000000)::bigint FROM eventsched_log.batch
        WHERE stream = :s ORDER BY first DESC LIMIT 1) AS written,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
FROM eventsched_log.head h WHERE h.stream = :s
"""


def _freshness(reader: Reader) -> str:
    """When the log last grew and which process writes it: a new pod may not be in it yet."""
    [row] = reader.rows(_FRESHNESS)
    if row["written"] is None:
        return "the log holds no record yet"
    by = f", written by {row['holder']} (epoch {row['epoch']})" if row["holder"] else ""
    return f"the log last moved {with_distance(row['written'], row['now'])}{by}"


def _is_workload(target: ExplainTarget, evidence: Evidence) -> bool:
    """Whether the target is a workload. If a namespace has the name of a kind, a pod that was in it
    at any time comes first: ``job/x`` is then pod x of namespace job."""
    if target.kind == POD:
        return False
    return (
        target.word.count("/") > 1 or target.namespace is not None or not evidence.pods(target.word)
    )


def _explain_bare_group(
    options: argparse.Namespace, target: ExplainTarget, evidence: Evidence, opened: OpenLog,
    no_pod: NoPodError,
) -> int:  # fmt: skip
    """Explains the pod group that is named like no pod; raises ``no_pod`` without such a group."""
    group = target._replace(kind=POD_GROUP)
    try:
        _group_members(options, group, opened)
    except NoPodError:
        raise no_pod from None
    return _explain_workload(options, group, evidence, opened)


def _group_members(
    options: argparse.Namespace, group: ExplainTarget, opened: OpenLog
) -> GroupMembers:
    from eventsched.runtime.assembly import registry
    from eventsched.runtime.queries.profiles_in_force import profiles_with

    folded = opened.state(None)
    profiles: dict[str, bool] = {}
    if folded.opening is not None:
        known = registry(options.plugin)
        profiles = profiles_with(GROUPS_PLUGIN, "permit", folded.opening, known)
    return group_members(folded.state, group, opened.log.stream, profiles)


def _explain_workload(
    options: argparse.Namespace, target: ExplainTarget, evidence: Evidence, opened: OpenLog
) -> int:
    for option in ("attempt", "node", "why-not", "recompute"):
        if getattr(options, option.replace("-", "_")) not in (None, False):
            problem = f"is about one pod, and {target.word} is a workload"
            raise InputError(f"--{option}", problem, "name one of its pods, or leave it out")
    log, members = opened.log, None
    if target.kind == POD_GROUP:
        members = _group_members(options, target, opened)
    if isinstance(log, Reader):
        workload = stored_workload(log, target, members)
    else:
        workload = scanned_workload(log, log.stream, target, members)
    if example := workload.needs_step:
        workload = with_step(workload, _with_nodes(explain_newest(evidence, example), opened))
    if is_document(options.output):
        print_document(workload_json(workload, log.stream, members), options.output)
    else:
        now, display = time.time_ns() // 1_000, display_of_output()
        print(workload_text(workload, log.stream, now, display, members, full=options.full))
    return 0


def _explain(
    options: argparse.Namespace, target: ExplainTarget, evidence: Evidence, opened: OpenLog
) -> int:
    name = target.full_name if target.kind == POD else target.word
    if options.why_not is not None:
        if options.node is not None:
            problem = (
                "is about the attempt as it was, and --why-not about one that is decided again"
            )
            raise InputError("--node", problem, "leave one of the two out")
        return _explain_why_not(options, evidence, name, opened)
    recompute = _recomputation(options, opened) if options.recompute else None
    is_whole = options.full or is_document(options.output)
    told = explain if is_whole else explain_newest
    explained = told(evidence, name, options.attempt, options.node, recompute)
    explained = _with_nodes(explained, opened)
    if is_document(options.output):
        print_document(story_json(explained), options.output)
    else:
        now = time.time_ns() // 1_000
        print(story_text(explained, now, display_of_output(), full=options.full))
    return 0


def _with_nodes(explained: Explanation, opened: OpenLog) -> Explanation:
    """The explanation with the nodes that its next step depends on, if it does."""
    if not needs_closed_nodes(explained):
        return explained
    log, reader = opened
    return with_closed_nodes(explained, nodes_at(log, reader, log.head.next))


# Deciding again needs the whole scheduler. Importing it takes longer than most explanations.


def _recomputation(options: argparse.Namespace, opened: OpenLog) -> Callable[[int], Detail]:
    from eventsched.cli.recomputed_vectors import VectorRecomputation

    return VectorRecomputation(opened.log, opened.reader, options.plugin).detail


def _explain_why_not(
    options: argparse.Namespace, evidence: Evidence, name: str, opened: OpenLog
) -> int:
    from eventsched.history.asked_attempt import asked_attempt
    from eventsched.output.why_not_output import why_not_json, why_not_text
    from eventsched.questions.what_ifs.why_not_search import why_not

    log, reader = opened

    def state_before(position: int) -> FoldedState:
        return state_at(log, reader, position, log.head.next)

    asked = asked_attempt(evidence, name, options.attempt, options.why_not)
    found = why_not(asked, options.why_not, log, state_before, options.plugin)
    if is_document(options.output):
        print_document(why_not_json(found, evidence.stream), options.output)
    else:
        print(why_not_text(found, display_of_output()))
    return 0
