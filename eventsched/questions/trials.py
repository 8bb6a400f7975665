"""Where pods would go if they were submitted, on a copy of a past or the present state."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eventsched.cluster.files import decoded_text
from eventsched.cluster.sources import manifests
from eventsched.cluster.sources.admission import Admission
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.cluster.sources.workload_pods import PodsOfWorkloads
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain import near_names
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node
from eventsched.domain.objects.registry import AnyObject, StorageClass
from eventsched.domain.records import StreamStarted
from eventsched.domain.records.stimuli import OWN
from eventsched.history.past_state.state_manifests import nodes_of
from eventsched.output.terminal.display import PLAIN, Display
from eventsched.output.trial_output import trial_json, trial_text
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility
from eventsched.runtime import gc_tuning
from eventsched.runtime.queries.certain_room import certainly_fit
from eventsched.runtime.queries.logged_assembly import assembled
from eventsched.runtime.queries.node_proposals import NodeProposal, propose_nodes
from eventsched.runtime.queries.state_at import FoldedState
from eventsched.runtime.queries.trial_run import (
    Room,
    TrialCluster,
    TrialRun,
    copies_of,
    room_for,
    run_trial,
)
from eventsched.scheduling.config.configuration import refuse_extenders

MORE = 100
"""Further pods of the same template that are tried."""
MOST_PODS = 10_000
"""Pods of a request at most."""
MOST_SECONDS = 60
"""Seconds that the pods of a request are tried at most: it has one of few threads."""
_BODY = "body"
"""What messages call the pods of a request."""


@dataclass(frozen=True)
class Submission:
    """Pods to try, the other objects that come with them, and what there was to warn of."""

    pods: list[TracePod]
    objects: list[AnyObject]
    warnings: list[str]


@dataclass(frozen=True)
class Trial:
    """What came of pods that were tried: if all have a node and are alike, how many more would;
    else which nodes to add."""

    done: TrialRun
    room: Room | None
    proposal: NodeProposal | None


def submitted_pods(
    text: str,
    file: str,
    cluster: TrialCluster,
    workloads: PodsOfWorkloads,
    kept: Sequence[str],
) -> Submission:
    """The pods of a text, which messages call ``file``, and those of its ``workloads``. ``kept``
    are annotations to keep beside those that plugins declare. Raises InputError."""
    classes = [other for other in cluster.objects if isinstance(other, StorageClass)]
    [read] = manifests.read_texts([(file, text)], workloads, Admission(storage=classes))
    if not read.pods:
        raise _without_pods(file, read, workloads)
    if read.nodes:
        remedy = "leave the nodes out; the cluster has its own"
        raise InputError(file, f"holds the node {read.nodes[0].name}", remedy)
    assembly = cluster.assembly
    annotations = KeptAnnotations((*assembly.annotations, *kept))
    arrivals = []
    for pod in read.pods:
        where = f"{file}: Pod {pod.full_name}"
        if pod.scheduler_name not in assembly.profiles:
            problem = f"no profile is named {pod.scheduler_name!r}"
            remedy = near_names.offer(pod.scheduler_name, assembly.profiles)
            raise InputError(f"{where}: spec.schedulerName", problem, remedy)
        if pod.node_name:
            raise InputError(
                f"{where}: spec.nodeName", f"is {pod.node_name}", "remove it: it is decided here"
            )
        claims = tuple(annotations.stripped(claim) for claim in read.claims.get(pod.uid, ()))
        arrivals.append(TracePod(annotations.stripped(pod), claims=claims))
    for arrival in arrivals:
        if arrival.pod.uid in cluster.known:
            where = f"{file}: Pod {arrival.pod.full_name}"
            remedy = "give it another name, or remove its uid"
            raise InputError(where, "is in the cluster already", remedy)
    objects = [annotations.stripped(other) for other in read.objects]
    return Submission(arrivals, objects, list(read.warnings))


def _without_pods(file: str, read: manifests.Manifests, workloads: PodsOfWorkloads) -> InputError:
    """What is wrong with a file of which no pod is to be tried."""
    if workloads.templates:
        remedy = (
            "give it replicas, or a Job parallelism and completions, above 0, or give --count; a "
            "Pod that has finished needs no node"
        )
        return InputError(workloads.templates[0], "makes no pod", remedy)
    others = ", ".join(sorted(read.skipped_kinds))
    remedy = "write a Pod, Deployment, ReplicaSet, StatefulSet or Job into it"
    return InputError(file, f"holds no pod, but {others}" if others else "holds no pod", remedy)


def cluster_of(folded: FoldedState, stream: str, plugins: list[Path]) -> TrialCluster:
    """A state to try pods on, which must not change any longer. Raises InputError if the stream has
    no profiles, or asks extenders."""
    state, opening = folded.state, folded.opening
    if opening is None or state.serves or state.shadows or opening.inputs.get(OWN):
        problem = "is not one of a scheduler that binds by profiles, so no pod can be tried there"
        if opening is None:
            problem = "has not begun at that position"
        raise InputError(f"stream {stream}", problem, "name another stream or position")
    assembly = assembled(opening, stream, plugins)
    refuse_extenders(assembly.configuration, f"stream {stream}")
    if isinstance(opening, StreamStarted):
        assembly = assembly.as_of(state.flags)
    leaving = [
        pod_state.pod
        for uid, pod_state in state.pods.items()
        if pod_state.pod.deleting or uid in state.preemptions.evicting
    ]
    return TrialCluster(
        assembly,
        nodes_of(state),
        list(state.registry.everything()),
        leaving=leaving,
        state=state,
        position=state.position,
        now=state.now,
        known=frozenset(state.pods),
    )


def run_submission(
    cluster: TrialCluster, submission: Submission, templates: Sequence[Node] = ()
) -> Trial:
    """Tries the pods, then further ones or further nodes: of the shapes that the cluster has, or
    like one of ``templates``."""
    pods, objects = submission.pods, submission.objects
    done = run_trial(cluster, pods, objects)
    room = proposal = None
    if done.pending:
        proposal = propose_nodes(
            done, cluster.nodes, lambda nodes: run_trial(cluster, pods, objects, nodes), templates
        )
    elif _are_alike(pods):
        more = copies_of(pods[0].pod)
        if certainly_fit(cluster, done, more, MORE):
            room = Room(MORE, is_limit=True)
        else:
            room = room_for(cluster, pods, objects, more, MORE)
    return Trial(done, room, proposal)


def _are_alike(pods: Sequence[TracePod]) -> bool:
    """Whether further pods can be made of the first one: all are of one template, without claims
    of their own."""
    first = pods[0].pod
    return all(
        arrival.pod.spec == first.spec
        and arrival.pod.labels == first.labels
        and not any(volume.claim for volume in arrival.pod.volumes)
        for arrival in pods
    )


def trial_answer(
    stream: LoggedStream,
    sees: Visibility,
    states: FoldedStates,
    at: str | None,
    body: bytes,
    count: int | None,
    plugins: list[Path],
    *,
    in_words: bool = False,
    full: bool = False,
    display: Display = PLAIN,
) -> dict[str, Any]:
    """What would come of pods (YAML or JSON) on the state of a position or time, as ``eventsched
    try -o json`` prints it, with ``warnings``; ``in_words`` adds the ``text`` that it prints
    otherwise. Raises InputError, also for what is too much."""
    sees.require_whole("try")
    text = decoded_text(body, _BODY)
    manifests.refuse_aliases(text, _BODY)
    until = time.monotonic() + MOST_SECONDS

    def in_time() -> None:
        if time.monotonic() > until:
            problem = f"takes more than {MOST_SECONDS} seconds to try"
            raise InputError(_BODY, problem, "try fewer pods, or use the command eventsched try")

    # Automatic collections would look at the objects of each state again and again.
    with gc_tuning.paused():
        cluster = cluster_of(states.before_step(stream, at), stream.name, plugins)
        submission = _submission_of(text, cluster, PodsOfWorkloads(count, MOST_PODS))
        trial = run_submission(replace(cluster, each_step=in_time), submission)
    came = trial.done, trial.room, trial.proposal
    return {
        "stream": stream.name,
        "position": cluster.position,
        **trial_json(*came),
        "warnings": submission.warnings,
        **({"text": trial_text(*came, full=full, display=display)} if in_words else {}),
    }


def _submission_of(text: str, cluster: TrialCluster, workloads: PodsOfWorkloads) -> Submission:
    try:
        return submitted_pods(text, _BODY, cluster, workloads, ())
    except InputError as problem:
        where, remedy = (_as_asked(words) for words in (problem.where, problem.remedy))
        raise InputError(where, _as_asked(problem.problem), remedy) from None


def _as_asked(text: str) -> str:
    """A message that names the command's option, for the parameter."""
    return text.replace("--count", "count")
