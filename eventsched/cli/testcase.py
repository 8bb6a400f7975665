"""``eventsched testcase SEQ``: a decision as a pytest file with the smallest cluster."""

import argparse
import sys
import time
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import msgspec
import yaml

from eventsched.authoring.testcase.opaque_names import OpaqueNames
from eventsched.authoring.testcase.shrinking import Shrinking
from eventsched.authoring.testcase.test_file import TestedDecision, written
from eventsched.cli.log_access.log_at import add_log_options, opened_log
from eventsched.cluster.translate.written_manifests import Written, node_manifest, pod_manifest
from eventsched.cluster.translate.written_objects import object_manifest
from eventsched.domain.errors import InputError
from eventsched.domain.records import PodDecided, VerdictDefined
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.past_state.state_manifests import nodes_of, pods_of
from eventsched.output.terminal.tables import counted
from eventsched.questions.past.open_log import OpenLog
from eventsched.runtime.queries.logged_assembly import assembled
from eventsched.runtime.queries.placed_pod import PlacedPod
from eventsched.runtime.queries.placement_query import ClusterSnapshot
from eventsched.runtime.queries.state_at import Opening, dropped_error, state_at
from eventsched.testing.placements import placement


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "testcase",
        help="write a decision as a pytest file with the smallest cluster",
        description="Takes the decision at a position of the log, and leaves out every node, pod "
        "and object that its verdict does not need: the chosen node (or that there is none) and "
        "the refusals stay the same. Prints a file for a test of a plugin or for an issue report. "
        "`pytest FILE` runs it; it needs eventsched and pytest (pip install pytest).",
    )
    parser.add_argument(
        "seq", metavar="SEQ", type=int,
        help="the position of a decision (PodDecided), as `explain` and `log list` show it",
    )  # fmt: skip
    parser.add_argument(
        "--anonymous",
        action="store_true",
        help="give nodes, pods, owners, namespaces, labels, taints, images and volumes opaque "
        "names; the configuration and the names of plugin files stay",
    )
    parser.add_argument(
        "--plugin", type=Path, action="append", default=[], metavar="FILE.py",
        help="a file with plugins that the stream was written with; may be repeated",
    )  # fmt: skip
    add_log_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the file. Raises InputError."""
    began = time.perf_counter()
    with opened_log(options) as opened:
        decided, state, opening = _decision(opened, options.seq)
        refusing = _refusing(opened, decided, state, options.seq)
        stream = opened.log.stream
        assembly = assembled(opening, stream, options.plugin)
    whole = _cluster(state, decided.uid)
    shrinking = Shrinking(whole, assembly, decided.node)
    _require_same(shrinking.placement, decided, refusing, options.seq)
    small = shrinking.shrunk(whole)
    pod = small.in_question[0].full_name
    title = f"The decision about pod {pod} at position {options.seq} of stream {stream}."
    objects, names = list(_objects(small)), {}
    if options.anonymous:
        opaque = OpaqueNames()
        objects, names = opaque.renamed(objects), opaque.names
        namespace, _, name = pod.partition("/")
        pod = f"{names.get(namespace, namespace)}/{names.get(name, name)}"
        title = "A decision with opaque names."
    found = _decided_again(objects, pod, opening, options.plugin)
    if not shrinking.is_kept(found, names):
        problem, remedy = "is decided differently from manifests", "choose another decision"
        if options.anonymous:
            problem, remedy = "is decided differently with opaque names", "leave --anonymous out"
        raise InputError(f"position {options.seq}", problem, remedy)
    files = [str(path) for path in options.plugin]
    print(written(TestedDecision(title, objects, opening.configuration, pod, found, files)), end="")
    print(
        f"{counted(len(small.nodes), 'node')} of {len(whole.nodes)}, "
        f"{counted(len(small.pods), 'pod')} of {len(whole.pods)} and "
        f"{counted(len(small.objects), 'other object')} of {len(whole.objects)} are needed "
        f"({shrinking.trials} decisions, {time.perf_counter() - began:.1f} s)",
        file=sys.stderr,
    )
    print("run the file by `pytest FILE` (pip install pytest)", file=sys.stderr)
    return 0


def _decision(opened: OpenLog, position: int) -> tuple[PodDecided, SchedulerState, Opening]:
    """The decision at a position, the state before it, and the record that put the configuration
    in force. Raises InputError."""
    end = opened.log.head.next
    where = f"position {position}"
    if not 0 <= position < end:
        raise InputError(where, f"is not in the log, which ends at {end}", "name one before it")
    if isinstance(opened.log, Reader) and position < opened.log.begin:
        raise dropped_error(opened.log, position, where)
    stored = next(opened.log.read(position))
    decided = stored.record
    if not isinstance(decided, PodDecided):
        remedy = "name a PodDecided: `eventsched log list --kind PodDecided`"
        raise InputError(where, f"is a {stored.kind}, not a decision", remedy)
    folded = state_at(opened.log, opened.reader, stored.cause, end)
    if folded.opening is None:
        raise InputError(where, "has no known configuration", "add --from-archive FOLDER")
    return decided, folded.state, folded.opening


def _refusing(
    opened: OpenLog, decided: PodDecided, state: SchedulerState, position: int
) -> set[str]:
    """The plugins that refused the pod or nodes. The same step may define verdicts before the
    decision; numbers behind the dictionary's are of no plugin."""
    if decided.plugin:
        return {decided.plugin}
    verdicts = list(state.verdicts)
    for stored in opened.log.read(state.position):
        if stored.position >= position:
            break
        if isinstance(stored.record, VerdictDefined):
            verdicts.append(stored.record.verdict)
    numbers = (number for number, _ in decided.counts if number < len(verdicts))
    return {verdict.plugin for number in numbers if (verdict := verdicts[number]) is not None}


def _cluster(state: SchedulerState, uid: str) -> ClusterSnapshot:
    pod = msgspec.structs.replace(state.pods[uid].pod, node_name="")
    others = [other for other in pods_of(state) if other.uid != uid]
    objects = list(state.registry.everything())
    return ClusterSnapshot(nodes_of(state), others, objects, [pod], ())


def _require_same(
    placement: PlacedPod, decided: PodDecided, refusing: Set[str], position: int
) -> None:
    """Raises InputError if the objects of the cluster alone do not lead to the decision: its node,
    and the plugins that refused others. A search that ended early need not have met them all."""
    found = {plugin for plugin, _ in placement.refusals if plugin}
    same_node = decided.node in placement.nodes if decided.node else not placement.nodes
    if same_node and (refusing == found or (decided.start >= 0 and refusing <= found)):
        return
    raise InputError(
        f"position {position}",
        "does not follow from the objects of the cluster alone (a plugin's memory, a nomination, "
        "samples or an extender decided)",
        "choose another decision of the pod",
    )


def _objects(cluster: ClusterSnapshot) -> Iterator[Written]:
    yield from map(object_manifest, cluster.objects)
    yield from map(node_manifest, cluster.nodes)
    yield from map(pod_manifest, (*cluster.pods, *cluster.in_question))


def _decided_again(
    objects: list[Written], pod: str, opening: Opening, plugins: list[Path]
) -> PlacedPod:
    """The verdict of the file that will be written, in the way that its test does it."""
    text = yaml.safe_dump_all(objects, sort_keys=False)
    return placement(text, pod, opening.configuration, plugins)
