"""``eventsched shadow report``: how a shadow's decisions compare with the real placements."""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from eventsched.cli.answers.answer_forms import add_output_option, is_document, print_document
from eventsched.cli.log_access.log_at import AT_HELP, add_log_options, opened_log
from eventsched.domain.errors import InputError
from eventsched.domain.records import PlacementMatch
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.explain.evidence import Evidence, ScannedEvidence
from eventsched.history.explain.stored_evidence import StoredEvidence
from eventsched.history.shadow_report import (
    SHOWN,
    DifferingPod,
    ShadowReport,
    deciding_plugins,
    shadow_report,
    used_nodes,
    used_nodes_here,
)
from eventsched.output.terminal.tables import counted, duration, table
from eventsched.output.time_format import iso, moment
from eventsched.questions.past.open_log import StreamLog

_OUTCOMES = {
    PlacementMatch.SAME: "both chose the same node",
    PlacementMatch.DIFFERENT: "both found a node, another one",
    PlacementMatch.ONLY_THERE: "placed there, no node found here",
    PlacementMatch.ONLY_HERE: "a node chosen here, deleted before it was placed",
    PlacementMatch.UNDECIDED: "placed before it was decided here",
}


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "shadow",
        help="report how a shadow's decisions compare with the real placements",
        description="Questions to the log of `eventsched run --shadow` (docs/shadow.md).",
    )
    actions = parser.add_subparsers(title="actions", dest="action", required=True)
    report = actions.add_parser(
        "report",
        help="sum up where a shadow and the scheduler that it follows differ",
        description="Sums up the comparisons of a shadow's log: how often both chose the same "
        "node, which plugins refuse the real node or prefer the other one, which was decided "
        "first, how long pods waited, and how full the nodes would be.",
    )
    for name, default in (("from", "the beginning"), ("until", "the end")):
        report.add_argument(
            f"--{name}", dest=f"{name}_", metavar="POS|TIME",
            help=f"comparisons {name} there: {AT_HELP} (default: {default})",
        )  # fmt: skip
    add_log_options(report)
    add_output_option(report, "text")
    report.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> int:
    """Prints the report."""
    with opened_log(options) as opened:
        log = opened.log
        begin = 0 if options.from_ is None else opened.position(options.from_, "--from")
        if isinstance(log, Reader):
            begin = max(begin, log.begin)
        after = opened.state(options.until_, "--until")
        if not after.state.shadows:
            problem, remedy = "is not the log of a shadow", "name that of `eventsched run --shadow`"
            raise InputError(f"stream {log.stream}", problem, remedy)
        if begin > after.position:
            problem = f"is position {begin}, after --until ({after.position})"
            raise InputError("--from", problem, "exchange them")
        before = opened.state(str(begin), "--from").state if begin else SchedulerState()
        records = takewhile(lambda each: each.position < after.position, log.read(begin))
        report = shadow_report(records, begin, before)
        plugins = deciding_plugins(report, _evidence(log))
    document: dict[str, Any] = {
        "stream": log.stream, "schedulers": list(after.state.shadows), "from": begin,
        "until": after.position, "at": iso(after.state.now),
        "used": used_nodes(after.state)._asdict(),
        "used_here": used_nodes_here(after.state, report.chosen)._asdict(),
    }  # fmt: skip
    if is_document(options.output):
        print_document(document | _json(report, plugins), options.output)
    else:
        print("\n".join(_text(document, report, plugins, after.state.now)))
    return 0


def _evidence(log: StreamLog) -> Evidence:
    if isinstance(log, Reader):
        return StoredEvidence(log)
    return ScannedEvidence(log, log.stream)  # of an archive or a file


def _json(report: ShadowReport, plugins: Counter[str]) -> dict[str, Any]:
    refused = [
        {"plugin": plugin, "reason": reason, "pods": pods}
        for (plugin, reason), pods in report.refused.most_common()
    ]
    preferred = [{"plugin": plugin, "pods": pods} for plugin, pods in plugins.most_common()]
    return {
        "outcomes": {each.value: report.outcomes[each] for each in PlacementMatch},
        "agreement": report.agreement,
        "refused": refused,
        "both_pass": {"equal": report.equal, "lower": report.lower, "plugins": preferred},
        "first": {"here": report.first_here, "there": report.first_there},
        "waits": {"here": _quantiles(report.waits_here), "there": _quantiles(report.waits_there)},
        "differing": [_differing_json(each) for each in _newest(report)],
    }


def _differing_json(each: DifferingPod) -> dict[str, Any]:
    compared = each.compared
    return {
        "pod": each.name, "uid": compared.uid, "position": each.position,
        "decided": each.decided, "node": compared.node, "chosen": compared.chosen,
        "feasible": compared.feasible, "plugin": compared.plugin,
        "reasons": list(compared.reasons), "score": compared.score,
        "chosen_score": compared.chosen_score,
    }  # fmt: skip


def _newest(report: ShadowReport) -> list[DifferingPod]:
    """The differing pods that are shown, the newest first."""
    return list(reversed(report.differing))[:SHOWN]


def _quantiles(waits: Sequence[int]) -> dict[str, int] | None:
    """Median and 99th percentile, in µs; None without waits."""
    if not waits:
        return None
    median, most = np.percentile(np.array(waits), (50, 99), method="inverted_cdf")
    return {"p50": int(median), "p99": int(most)}


def _text(
    document: Mapping[str, Any], report: ShadowReport, plugins: Counter[str], now: int
) -> Iterator[str]:
    names = ", ".join(document["schedulers"])
    yield (
        f"stream {document['stream']}, a shadow of {names}: from position {document['from']} to "
        f"{document['until']} ({moment(now)})"
    )
    total = report.outcomes.total()
    if not total:
        yield "no pod was compared yet"
        return
    if report.agreement is not None:
        both = report.outcomes[PlacementMatch.SAME] + report.outcomes[PlacementMatch.DIFFERENT]
        yield f"the same node for {report.agreement:.1%} of {counted(both, 'pod')} that both placed"
    yield ""
    yield table(
        ["outcome", "pods", ""],
        [(each.value, str(report.outcomes[each]), text) for each, text in _OUTCOMES.items()],
    )
    yield from _differences(report, plugins)
    yield from _times(report)
    yield from _utilisation(document["used"], document["used_here"])
    yield from _pods(report)


def _differences(report: ShadowReport, plugins: Counter[str]) -> Iterator[str]:
    if report.refused:
        yield "\nthe real node is refused here:"
        rows = [(plugin, reason, str(n)) for (plugin, reason), n in report.refused.most_common()]
        yield table(["plugin", "reason", "pods"], rows)
    if report.equal or report.lower:
        yield (
            f"\nboth nodes pass here: equal totals (a draw) for {counted(report.equal, 'pod')}, a "
            f"lower total of the real node for {report.lower}"
        )
    if plugins:
        yield "the plugin that spoke most for the node chosen here:"
        yield table(["plugin", "pods"], [(name, str(n)) for name, n in plugins.most_common()])


def _times(report: ShadowReport) -> Iterator[str]:
    yield (
        f"\ndecided here before the placement arrived: {counted(report.first_here, 'pod')}; placed "
        f"there first: {report.first_there}"
    )
    for where, waits in (
        ("the decision here", report.waits_here),
        ("the placement", report.waits_there),
    ):
        if (found := _quantiles(waits)) is not None:
            p50, p99 = duration(found["p50"]), duration(found["p99"])
            yield f"from arrival to {where}: median {p50}, 99 % within {p99}"


def _utilisation(used: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    yield "\nnodes with pods, and how much of them is requested (mean, largest):"
    rows = [
        (name, str(each["nodes"]), *(
            f"{mean:.0%}, {each['largest'][resource]:.0%}"
            for resource, mean in each["mean"].items()
        ))
        for name, each in (("as placed", used), ("as chosen here", here))
    ]  # fmt: skip
    yield table(["", "nodes", *used["mean"]], rows)


def _pods(report: ShadowReport) -> Iterator[str]:
    newest = _newest(report)
    if not newest:
        return
    yield f"\nthe newest pods that differ ({len(newest)}); `eventsched explain POD` has the rest:"
    yield table(
        ["pod", "placed on", "chosen here", "why"],
        [
            (each.name, each.compared.node, each.compared.chosen or "-", _why(each))
            for each in newest
        ],
    )


def _why(each: DifferingPod) -> str:
    compared = each.compared
    if not compared.feasible:
        return ": ".join(filter(None, (compared.plugin, ", ".join(compared.reasons))))
    if not compared.chosen:
        return "no node was found here at the last attempt"
    return f"{compared.score} there, {compared.chosen_score} here"
