"""Binds that wait for volumes, in any order of what happens to claims, volumes, nodes and pods:
they wait exactly as long as upstream's rules say, and it does not matter who leads.

Two engines take turns: each step is made by one that has read from the log what the other did, as
a leader has after a takeover, and has no earlier answer of a plugin. VOLUME_STEPS sets how
many steps are made in all.
"""

import os
from typing import Any

import pytest

from eventsched.domain import records
from eventsched.domain.objects.registry import PersistentVolume, PersistentVolumeClaim
from eventsched.domain.records import Stimulus

from .test_volumes import Checked
from .volume_world import MODES

STEPS = int(os.environ.get("VOLUME_STEPS", "10000"))
RUNS = 5
KINDS = [
    "node", "node gone", "pod", "pod", "pod", "gone", "outcome", "outcome", "claim", "claim",
    "volume", "forget", "controller", *["written"] * 5, *["bound"] * 4, "time",
]  # fmt: skip


class TakingTurns(Checked):
    """Claims and volumes are mostly usable here."""

    kinds = KINDS

    def __init__(self, seed: int) -> None:
        self.standby: Any = None
        super().__init__(seed)
        self.standby = self.fresh()
        for each in self.log:
            self.standby.apply(each)

    def _claim(self, name: str, namespace: str, **fields: Any) -> PersistentVolumeClaim:
        usable = {
            "storage_class": self.random.choice(["wait", "local", "local"]), "access_modes": (),
            "volume_mode": "Filesystem", "requested": 1, "selector": (), "phase": "Pending",
            "deleting": False, "attributes_class": "", "volume": "", "bound": False,
            "selected_node": "",
        }  # fmt: skip
        return super()._claim(name, namespace, **{**usable, **fields})

    def _volume(self, name: str) -> PersistentVolume:
        found = super()._volume(name)
        return PersistentVolume(
            name=name, storage_class="local", capacity=20, access_modes=tuple(MODES),
            phase="Available", labels=found.labels,
            node_terms=found.node_terms if self.some(0.5) else None,
        )  # fmt: skip

    def _observe(self, stimulus: Stimulus) -> None:
        begin = len(self.log)
        super()._observe(stimulus)
        self._hand_over(begin)

    def attempt(self) -> None:
        """An attempt, after which the other one leads."""
        begin = len(self.log)
        super().attempt()
        self._hand_over(begin)

    def _hand_over(self, begin: int) -> None:
        if self.standby is None:
            return
        for each in self.log[begin:]:
            stored = records.decode(records.encode(each.record))
            self.standby.apply(each._replace(record=stored, detail=None))
        assert self.standby.state.digest() == self.state.digest()
        assert self.standby.due == self.engine.due
        self.engine, self.standby = self.standby, self.engine


@pytest.mark.parametrize("seed", range(RUNS))
def test_whoever_leads_binds_wait_for_what_the_rules_say(seed: int) -> None:
    world = TakingTurns(seed)
    for _ in range(STEPS // RUNS // 4):
        world.step()
        if world.some(0.6):
            world.attempt()
        world.waits()
    kinds = {type(each.record).__name__ for each in world.log}
    assert kinds >= {"PreparationIntended", "WriteSucceeded", "BindIntended", "PodUnreserved"}
