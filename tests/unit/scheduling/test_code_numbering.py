"""Codes that a plugin numbers as it goes do not run out, however many answers it has given."""

from typing import Any

import msgspec
import pytest

from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT, Behaviour
from eventsched.domain.objects import Container, Node, Pod, PodSpec
from eventsched.plugins import node_resources_fit
from eventsched.plugins.gallery import priority_label
from eventsched.plugins.gallery.priority_label import Priority
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import PluginError, per_node_plugins
from tests.builders import SECOND, added, attempted, engine_of, make_node, make_pod, observed

BEFORE = tuple(flag for flag in CURRENT if flag != Behaviour.RENUMBERS_CODES)
FEW = 12


@pytest.fixture(autouse=True)
def _few_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(per_node_plugins, "MOST_REASONS", FEW)
    monkeypatch.setattr(priority_label, "_MAX_NAMED", FEW)


class Chatty:
    """Refuses every node with a reason of its own."""

    name = "Chatty"

    def filter_node(self, pod: Pod, node: Node) -> str:
        return f"{node.name} is not for me"


class SignedChatty(Chatty):
    """Its columns are cached."""

    def sign(self, pod: Pod) -> Any:
        return ()


def replaced(plugin: Any, flags: tuple[int, ...] = CURRENT, times: int = 40) -> tuple[Any, Engine]:
    """The messages of attempts between which the nodes are replaced, one at a time."""
    engine = engine_of(plugin)
    observed(engine, records.StreamStarted(format=1, engine="0", seed="s", flags=flags))
    observed(engine, *added(make_node("n0"), make_node("n1")))
    messages = []
    for number in range(times):
        at = 400 * number * SECOND
        observed(engine, *added(make_pod(f"p{number}")), at=at)
        decided = [r for r in attempted(engine) if isinstance(r, records.PodDecided)]
        messages.append(decided[0].message)
        observed(engine, records.PodDeleted(uid=f"p{number}"), at=at)
        changes = [records.NodeDeleted(name=f"n{number}"), *added(make_node(f"n{number + 2}"))]
        observed(engine, *changes, at=at)
    return messages, engine


@pytest.mark.parametrize("plugin", [Chatty, SignedChatty])
def test_reasons_that_name_nodes_do_not_run_out(plugin: type[Chatty]) -> None:
    messages, _ = replaced(plugin())

    assert messages == [
        "0/2 nodes are available: "
        + ", ".join(sorted(f"1 n{n} is not for me" for n in (number, number + 1)))
        + "."
        for number in range(40)
    ]


def test_a_stream_without_the_behaviour_fails_once_they_have_run_out() -> None:
    messages, _ = replaced(Chatty(), BEFORE)

    assert "n10 is not for me" in messages[10]
    assert messages[11] == (
        f"plugin Chatty failed in filter_node: gave more than {FEW} different reasons; leave names "
        "and measured values out of them"
    )


def test_a_refused_reason_takes_no_room() -> None:
    plugin = per_node_plugins.adapted(Chatty())
    for number in range(FEW):
        plugin._code(make_pod(), make_node(f"n{number}"))
    for number in range(FEW, 3 * FEW):
        with pytest.raises(PluginError, match="different reasons"):
            plugin._code(make_pod(), make_node(f"n{number}"))
    assert len(plugin._numbers) == FEW
    assert plugin._code(make_pod(), make_node("n3")) == 4


def test_a_label_that_nodes_lack_is_named_for_all_nodes() -> None:
    assert all("1 Node:Node: n" in message for message in replaced(Priority())[0])
    without = replaced(Priority(), BEFORE)[0]
    assert "node(s) did not have label" in without[-1]


def test_a_plugin_that_fails_to_drop_its_codes_is_harmless() -> None:
    """The columns are computed again."""

    class Broken(SignedChatty):
        def drop_codes(self) -> bool:
            raise RuntimeError("no")

        def filter(self, cycle: Any, pod: Pod, nodes: Any) -> Any:
            return [1] * len(nodes)

    messages, _ = replaced(Broken(), times=2)

    assert messages == ["0/2 nodes are available: 2 node(s) were refused by Chatty."] * 2


# --- sets of resources that do not fit into a code ------------------------------------------

DEVICES = [f"example.com/d{number:02}" for number in range(20)]


def wanting(number: int) -> Pod:
    """A pod that requests all devices, and is short of those that the bits of its number say."""
    lacks = [number >> place & 1 for place in range(len(DEVICES))]
    amounts = {name: 1 + lack for name, lack in zip(DEVICES, lacks, strict=True)}
    spec = PodSpec(containers=(Container(requests=amounts),))
    return msgspec.structs.replace(make_pod(f"p{number}"), spec=spec)


def with_devices() -> tuple[NodeResourcesFit, Engine]:
    """A node with one of each device."""
    fit = NodeResourcesFit()
    engine = engine_of(fit)
    observed(engine, records.StreamStarted(format=1, engine="0", seed="s", flags=CURRENT))
    observed(engine, *added(make_node(extra=dict.fromkeys(DEVICES, 1))))
    return fit, engine


def test_sets_of_many_resources_are_not_kept_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each template may be short of another set. Every message names its own."""
    monkeypatch.setattr(node_resources_fit, "_MAX_PATTERNS", FEW)
    fit, engine = with_devices()
    for number in range(1, 4 * FEW):
        observed(engine, *added(wanting(number)))
        [decided] = [r for r in attempted(engine) if isinstance(r, records.PodDecided)]
        short = [name for place, name in enumerate(DEVICES) if number >> place & 1]
        assert decided.message == "0/1 nodes are available: {}.".format(
            ", ".join(f"1 Insufficient {name}" for name in short)
        )
        observed(engine, records.PodDeleted(uid=f"p{number}"))
        assert len(fit._pattern_bits) <= FEW + 1


def test_a_hint_numbers_no_sets() -> None:
    """No attempt may follow for a long time, in which nodes change."""
    fit, engine = with_devices()
    observed(engine, *added(wanting(1)))
    attempted(engine)
    known = len(fit._pattern_bits)
    for number in range(1, 20):
        extra = {name: 1 - (number >> place & 1) for place, name in enumerate(DEVICES)}
        update = records.NodeUpdated(node=make_node(extra=extra))
        assert observed(engine, update) == [update]
    assert len(fit._pattern_bits) == known
