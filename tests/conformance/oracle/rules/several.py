"""Several profiles in one configuration, each with plugins, weights and arguments of its own."""

import random

from tests.conformance.oracle.clusters import Obj
from tests.conformance.oracle.profiles import HEADER, document
from tests.conformance.oracle.rules import affinity, binding, nodes, resources, spread
from tests.conformance.oracle.rules.vocabulary import Kind, Rule, pod

_TWO = f"""\
{HEADER}percentageOfNodesToScore: 1
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  percentageOfNodesToScore: 100
  plugins:
    score:
      disabled: [{{name: '*'}}]
      enabled: [{{name: NodeResourcesFit, weight: 7}}, {{name: InterPodAffinity, weight: 1}}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: MostAllocated, resources: [{{name: cpu, weight: 1}}]}}}}
"""
_THREE = f"""\
{HEADER}parallelism: 3
profiles:
- schedulerName: packing
  pluginConfig:
  - name: InterPodAffinity
    args: {{hardPodAffinityWeight: 0}}
  - name: PodTopologySpread
    args: {{defaultingType: List, defaultConstraints: []}}
- schedulerName: careless
  plugins:
    multiPoint:
      disabled: [{{name: InterPodAffinity}}, {{name: PodTopologySpread}}, {{name: TaintToleration}}]
    preFilter: {{disabled: [{{name: NodePorts}}]}}
    filter: {{disabled: [{{name: NodePorts}}]}}
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{{name: PodTopologySpread, weight: 11}}, {{name: NodeAffinity, weight: 3}}]
    filter:
      disabled: [{{name: NodeResourcesFit}}]
"""
# PreFilter and PreScore may be off where Filter and Score are not, which then do the work.
_ALONE = document(
    "    preFilter: {disabled: [{name: NodeAffinity}, {name: VolumeZone}]}\n"
    "    preScore: {disabled: [{name: NodeAffinity}, {name: NodeResourcesFit}, "
    "{name: NodeResourcesBalancedAllocation}]}\n"
)
_PROFILES = ("default-scheduler", "packing", "careless", "nobody")


def _cluster(r: random.Random) -> list[Obj]:
    """The clusters of all the other rules, their nodes side by side."""
    made: list[Obj] = []
    for kind in (affinity.KINDS[1], spread.KINDS[2], resources.KINDS[0], nodes.KINDS[0]):
        prefix = kind.name[:4]
        for each in kind.objects(r):
            metadata = each["metadata"]
            if each["kind"] in ("Node", "Pod"):
                metadata["name"] = f"{prefix}-{metadata['name']}"
            if each["kind"] == "Pod":
                metadata["uid"] = f"uid-{metadata['name']}"
                each["spec"]["nodeName"] = f"{prefix}-{each['spec']['nodeName']}"
            made.append(each)
    return made


def _by_any(rules: dict[str, Rule], profile: str) -> Rule:
    def made(r: random.Random) -> Obj:
        chosen = rules[r.choice(list(rules))](r)
        chosen["spec"]["schedulerName"] = profile
        return chosen

    return made


_OF = {
    "near": dict(affinity.KINDS[0].rules),
    "likes": dict(affinity.KINDS[1].rules),
    "spread": dict(spread.KINDS[0].rules),
    "owned": dict(spread.KINDS[2].rules),
    "asks": dict(resources.KINDS[0].rules),
    "tolerates": dict(nodes.KINDS[0].rules),
    "labels": {name: rule for name, rule in nodes.KINDS[1].rules.items() if "fields" not in name},
}
_RULES = {
    **{f"{kind}-{name}": _by_any(rules, name) for kind, rules in _OF.items() for name in _PROFILES},
    "plain": lambda r: pod(),
    "plain-packing": lambda r: pod(schedulerName="packing"),
}

_UNPREPARED = {
    **{f"labels-{name}": rule for name, rule in nodes.KINDS[1].rules.items()},
    **{f"asks-{name}": rule for name, rule in resources.KINDS[0].rules.items()},
    **{f"zone-{name}": rule for name, rule in binding.KINDS[1].rules.items()},
}


def _prepared_by_none(r: random.Random) -> list[Obj]:
    return [*binding.KINDS[1].objects(r), *_cluster(r)]


KINDS = [
    Kind("several-profiles", _cluster, _RULES, (_TWO, _THREE)),
    Kind("without-preparation", _prepared_by_none, _UNPREPARED, (_ALONE,)),
]
