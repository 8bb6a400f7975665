"""Bars of the scores that ``explain`` shows on a terminal."""

import pytest

from eventsched.eventlog.memory import MemoryEventLog
from eventsched.history.decision_vectors import NodeScore, PluginScore
from eventsched.history.explain.evidence import ScannedEvidence
from eventsched.history.explain.explanation import Explanation, explain
from eventsched.output.explain_output import story_text
from eventsched.output.terminal.display import Display
from eventsched.output.terminal.score_table import score_table
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.runtime.effects.batches import BatchBuilder
from tests.builders import added, engine_of, make_node, make_pod


@pytest.fixture
def explained() -> Explanation:
    """A pod that could have had either of two nodes."""
    engine, log = engine_of(NodeResourcesFit()), MemoryEventLog("s")
    builder = BatchBuilder(engine.state)
    for stimulus in added(make_node("half", cpu=2000), make_node("most", cpu=4000), make_pod()):
        builder.add(engine.observe(stimulus, 0))
    builder.add(engine.schedule_next())
    closed = builder.close()
    assert closed is not None
    log.begin(closed.batch)
    return explain(ScannedEvidence(log, "s"), "p1")


def scores(text: str) -> list[str]:
    lines = text.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("PLUGIN"))
    return lines[begin : begin + 4]


def test_scores_have_bars_if_they_fit(explained: Explanation) -> None:
    plain = scores(story_text(explained, 0, Display(200)))
    assert plain == scores(story_text(explained, 0, Display(0, bars=True))) != []
    barred = scores(story_text(explained, 0, Display(200, bars=True)))
    assert barred == [
        "PLUGIN             most                     half",
        "NodeResourcesFit   ███████▌·· 75 = 1 x 75   ██████▎··· 62 = 1 x 62",
        "total              ███████▌·· 75            ██████▎··· 62",
        "rank                          1                        2",
    ]
    width = max(map(len, barred))
    assert scores(story_text(explained, 0, Display(width, bars=True))) == barred
    short = scores(story_text(explained, 0, Display(width - 1, bars=True)))
    assert short[1] == "NodeResourcesFit   ███▊· 75 = 1 x 75   ███▏· 62 = 1 x 62"
    width = max(map(len, short))
    assert scores(story_text(explained, 0, Display(width, bars=True))) == short
    assert scores(story_text(explained, 0, Display(width - 1, bars=True))) == plain


def test_raw_scores_make_room_for_bars() -> None:
    part = PluginScore("TaintToleration", weight=3, raw=7, normalized=100, weighted=300)
    compared = [NodeScore(f"node-{number}", 300, 1, (part,)) for number in (1, 2)]
    rows = {
        width: score_table(compared, Display(width, bars=bars)).splitlines()[1].split("   ")[1]
        for bars in (True, False)
        for width in ((100, 70, 60, 50, 40) if bars else (0, 65, 45))
    }
    assert rows == {
        100: "██████████ 300 = 3 x 100 (raw 7)",
        70: "██████████ 300 = 3 x 100",
        60: "█████ 300 = 3 x 100",
        50: "300 = 3 x 100",
        40: "300 = 3 x 100",
        0: "300 = 3 x 100 (raw 7)",
        65: "300 = 3 x 100 (raw 7)",
        45: "300 = 3 x 100",
    }
