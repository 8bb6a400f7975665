"""The example in the docstring of ``scheduling/cycle`` shows what the engine computes."""

from eventsched.domain.records import PodDecided, VerdictDefined
from eventsched.domain.records.verdicts import Code, Verdict
from eventsched.scheduling import cycle
from eventsched.scheduling.cycle.cycle_keys import CODES_A_FILTER, KEY_PASSES, CycleKey
from tests.builders import added, engine_with, make_node, make_pod

REFUSED = CycleKey(5 * CODES_A_FILTER + 5)
VERDICT = Verdict("NodeResourcesFit", Code.UNRESOLVABLE, ("Insufficient cpu",))


def test_the_example_of_keys_verdicts_and_detail() -> None:
    engine = engine_with()
    pod = make_pod(cpu=2000)
    nodes = [make_node(name, cpu=cpu) for name, cpu in (("n0", 1000), ("n1", 4000), ("n2", 8000))]
    for stimulus in added(*nodes, pod):
        engine.observe(stimulus, 0)

    judged = engine.judge(pod)
    raws = {scored.column.plugin: scored.raw.tolist() for scored in judged.scores}
    assert judged.keys.tolist() == [REFUSED, KEY_PASSES, KEY_PASSES]
    assert judged.verdict(REFUSED) == VERDICT
    assert raws == {
        "NodeResourcesFit": [0, 62, 75],
        "NodeResourcesBalancedAllocation": [0, 68, 75],
        "TaintToleration": [0, 0, 0],
        "ImageLocality": [0, 0, 0],
    }
    assert judged.totals.tolist() == [-1, 430, 450]

    defined, *_, decided = engine.schedule_next()
    assert defined.record == VerdictDefined(number=1, verdict=VERDICT)
    assert isinstance(decided.record, PodDecided)
    assert (decided.record.row, decided.record.counts) == (2, ((1, 1),))
    assert decided.detail is not None
    assert decided.detail.codes is not None
    assert decided.detail.codes.tolist() == [1, 0, 0]

    for value in (judged.keys.tolist(), judged.totals.tolist(), *raws.values(), int(REFUSED)):
        assert str(value) in (cycle.__doc__ or ""), value
