"""The volume plugins over columns and counts that follow every change say what upstream's rules say
about the cluster as it is, read again; also of rows with pods more or less, and after a restart.

An engine is driven through seeded random steps; after each some pod is judged. VOLUME_STEPS sets
how many steps are made in all.
"""

import json
import os
from collections import Counter
from typing import Any

import numpy as np
import pytest

from eventsched.domain import records
from eventsched.domain.nodes.node_views import NodeView, PodStep, TrialView
from eventsched.domain.objects import Pod, PodVolume, registry
from eventsched.domain.objects.registry import PersistentVolume
from eventsched.domain.records.log_entry import LogEntry
from eventsched.scheduling.framework import Code, Cycle

from . import naive_binding
from . import naive_volumes as naive
from .volume_world import World

STEPS = int(os.environ.get("VOLUME_STEPS", "10000"))
RUNS = 20


class Checked(World):
    """Says whether both agree. ``seen`` counts what came of waiting for volumes."""

    def __init__(self, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        super().__init__(seed)

    def attempt(self) -> None:
        """An attempt; what it reserves is what the node was chosen with, and no other's."""
        before = self.cluster()
        before.memory = dict(before.memory)
        logged = self.engine.schedule_next()
        if self.twin is not None:
            self.same(self.twin.schedule_next(), logged)
        self.log += logged
        self._judge(logged, {})
        for each in logged:
            if isinstance(each.record, records.PodDecided) and each.record.node:
                self._check_reserved(before, each.record)
        held = [json.loads(key) for key in self.memory() if naive_binding.holds(before, key)]
        volumes = [name for kind, name, *_ in held if kind == "volume"]
        claims = [(kind, *claim) for kind, _, *claim in held if kind == "node"]
        assert len(set(volumes)) == len(volumes)
        assert len(set(claims)) == len(claims)

    def _check_reserved(self, before: naive.Cluster, decided: records.PodDecided) -> None:
        pod = self.state.pods[decided.uid].pod
        node = self.state.nodes.nodes[decided.row]
        expected = set()
        for name, claim_name in naive_binding.binding(before, pod, node)[1]:
            claim = before.claim(pod.namespace, claim_name)
            volume = before.registry.get(PersistentVolume, name)
            shown = volume.claim is not None and volume.claim[2] if volume else claim.selected_node
            kind = ("volume", name) if name else ("node", node.name)
            expected.add((*kind, claim_name, claim.uid, not shown))
        carried = {tuple(each) for each in decided.carry.get("VolumeBinding", ())}
        assert carried == expected
        held = {tuple(json.loads(key)) for key, uids in self.memory().items() if pod.uid in uids}
        assert held >= {(k, n, pod.namespace, c, u) for k, n, c, u, fresh in carried if fresh}

    def _observe(self, stimulus: records.Stimulus) -> None:
        carries = {uid: held.carry for uid, held in self.state.reservations.items()}
        begin = len(self.log)
        super()._observe(stimulus)
        self._judge(self.log[begin:], carries)

    def _judge(self, logged: list[LogEntry], carries: dict[str, dict[str, Any]]) -> None:
        """What was decided of pods that waited for volumes is what upstream's rules say."""
        for each in logged:
            match each.record:
                case records.PodDecided(uid=uid, carry=carry):
                    carries[uid] = carry
                case records.PodUnreserved(uid=uid, node=node, message=message):
                    words = message.removeprefix("binding volumes: ")
                    if words not in (message, "context deadline exceeded"):
                        assert self._said(uid, node, carries[uid]) == words
                        self.seen[words.split('"')[0]] += 1
                case records.BindIntended(uid=uid, node=node):
                    assert self._said(uid, node, carries[uid]) == "done"
                    self.seen["done"] += 1

    def _said(self, uid: str, node_name: str, carry: dict[str, Any]) -> str:
        table, pod = self.state.nodes, self.state.pods[uid].pod
        row = table.rows.get(node_name)
        node = None if row is None else table.nodes[row]
        return naive_binding.prepared(self.cluster(), pod, node, node_name, carry["VolumeBinding"])

    def waits(self) -> None:
        """A bind waits as long as upstream's rules say so of the cluster as it is, or for changes
        that have not been made; no longer."""
        for uid, held in self.state.reservations.items():
            assert held.intended != bool(held.preparing)
            if held.preparing and not held.writes:
                assert self._said(uid, held.node, held.carry) == "wait"

    def check(self) -> None:
        """A pod's verdicts, here and there: all nodes, some of them, and some in a trial."""
        pods = [each.pod for each in self.state.pods.values()]
        pod = self.random.choice(pods) if pods and self.some(0.3) else self.pod()
        cluster = self.cluster()
        table = self.state.nodes
        live = list(table.rows.values())
        rows = sorted(self.random.sample(live, (len(live) + 1) // 2))
        tried = [self._tried(row) for row in rows]
        flat = [PodStep(at, other, sign) for at, steps in enumerate(tried) for other, sign in steps]
        chosen = np.array(rows, dtype=np.intp)
        for plugin in (self.restrictions, self.limits, self.binding, self.zones):
            cycle = Cycle(0, "", registry=self.state.registry, memories=self.state.memory,
                          plugin=plugin.name)  # fmt: skip
            if not self._same_start(plugin, cycle, cluster, pod):
                continue
            whole = self._words(plugin, cycle, pod, NodeView(table))
            assert [whole[row] for row in live] == [
                self._theirs(plugin, cluster, pod, row, []) for row in live
            ]
            part = self._words(plugin, cycle, pod, NodeView(table, chosen))
            assert part == [whole[row] for row in rows]
            trial = self._words(plugin, cycle, pod, TrialView(table, chosen, flat))
            assert trial == [
                self._theirs(plugin, cluster, pod, row, steps)
                for row, steps in zip(rows, tried, strict=True)
            ]

    def _tried(self, row: int) -> list[tuple[Pod, int]]:
        residents = self.state.nodes.residents[row].values()
        steps = [(each, -1) for each in residents if self.some(0.5)]
        return steps + [(self.pod(), 1) for _ in range(self.random.choice([0, 0, 1, 2]))]

    def _same_start(self, plugin: Any, cycle: Cycle, cluster: naive.Cluster, pod: Pod) -> bool:
        """Whether both go on to Filter."""
        answer = plugin.pre_filter(cycle, pod, NodeView(self.state.nodes))
        if plugin is self.limits:
            expected = "" if any(_counts(each) for each in pod.volumes) else naive.SKIP
        elif plugin is self.restrictions:
            expected = naive.restrictions_first(cluster, pod)
        elif plugin is self.binding:
            expected = naive_binding.binding_first(cluster, pod)
        else:
            expected = naive.zones_first(cluster, pod)
        if not expected:
            assert answer is None
            return True
        if expected == naive.SKIP:
            assert answer.code is Code.SKIP
        else:
            assert answer.code is Code.UNRESOLVABLE
            assert answer.reasons == (expected,)
        return False

    def _words(self, plugin: Any, cycle: Cycle, pod: Pod, view: NodeView) -> list[str]:
        codes = plugin.filter(cycle, pod, view)
        found = []
        for code in [0] * len(view) if codes is None else codes.tolist():
            status = plugin.explain(cycle, pod, code) if code else None
            words = "; ".join(status.reasons) if status else ""
            found.append(f"error: {words}" if status and status.code is Code.ERROR else words)
        return found

    def _theirs(
        self, plugin: Any, cluster: naive.Cluster, pod: Pod, row: int,
        steps: list[tuple[Pod, int]],
    ) -> str:  # fmt: skip
        table = self.state.nodes
        node = table.nodes[row]
        gone = {other.uid for other, sign in steps if sign < 0}
        pods = [each for each in table.residents[row].values() if each.uid not in gone]
        pods += [other for other, sign in steps if sign > 0]
        if plugin is self.restrictions:
            return naive.restrictions(cluster, pod, pods, steps)
        if plugin is self.limits:
            return naive.limits(cluster, pod, node, pods)
        if plugin is self.binding:
            return naive_binding.binding(cluster, pod, node)[0]
        return naive.zones(cluster, pod, node)

    def restart(self) -> None:
        """Goes on with an engine made of a snapshot, beside the one that has been there: they do
        the same. One that folds the log is equal."""
        folded = self.fresh()
        for logged in self.log:
            folded.apply(logged)
        restored = self.fresh()
        restored.restore(self.engine.snapshot(), self.engine.position)
        assert folded.state.digest() == self.state.digest() == restored.state.digest()
        self.twin, self.engine = self.engine, restored


def _counts(volume: PodVolume) -> bool:
    return bool(volume.claim) or volume.source in ("gcePersistentDisk", "awsElasticBlockStore")


@pytest.mark.parametrize("seed", range(RUNS))
def test_columns_say_what_the_rules_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forgetful = seed % 2 == 1
    if forgetful:
        monkeypatch.setattr(registry, "_MOST_CHANGES", 6)
    world = Checked(seed)
    for number in range(STEPS // RUNS):
        if forgetful:
            world.state.nodes.volumes.journal.limit = world.state.nodes.node_journal.limit = 4
        world.step()
        if world.some(0.6):
            world.attempt()
        world.waits()
        world.check()
        if number % 60 == 59:
            world.restart()
