"""Configurations of the generated scenarios."""

import random

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
MOST = """\
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: cpu, weight: %d}, {name: memory, weight: 1}]
"""
RATIO = """\
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: cpu, weight: 2}, {name: example.com/gpu, weight: 3}]
        requestedToCapacityRatio:
          shape: [{utilization: 0, score: 0}, {utilization: %d, score: 7}, \
{utilization: 100, score: 10}]
"""
LEAST = """\
  - name: NodeResourcesFit
    args:
      ignoredResources: [example.com/gpu]
      scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 1}, \
{name: memory, weight: 1}, {name: example.com/gpu, weight: 4}]}
"""
HARD = """\
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: %d, ignorePreferredTermsOfExistingPods: %s}
"""
ADDED = """\
  - name: NodeAffinity
    args:
      addedAffinity:
        preferredDuringSchedulingIgnoredDuringExecution: [{weight: 7, preference: \
{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]
"""
BALANCED = """\
  - name: NodeResourcesBalancedAllocation
    args: {resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}, \
{name: example.com/gpu, weight: 1}]}
"""
TWO_SCORES = """\
    score:
      disabled: [{name: '*'}]
      enabled: [{name: NodeResourcesFit, weight: %d}, {name: ImageLocality, weight: %d}]
"""
NO_TAINT_SCORE = """\
    score:
      disabled: [{name: TaintToleration}]
      enabled: [{name: NodeAffinity, weight: %d}]
"""
NO_TAINT_FILTER = """\
    filter:
      disabled: [{name: TaintToleration}, {name: NodeUnschedulable}]
"""
NO_AFFINITY = """\
    multiPoint:
      disabled: [{name: InterPodAffinity}]
      enabled: [{name: ImageLocality, weight: 5}]
"""


def document(plugins: str = "", arguments: str = "", name: str = "default-scheduler") -> str:
    """A configuration of one profile: the lines below ``plugins`` and below ``pluginConfig``."""
    made = f"{HEADER}profiles:\n- schedulerName: {name}\n"
    if plugins:
        made += "  plugins:\n" + plugins
    if arguments:
        made += "  pluginConfig:\n" + arguments
    return made


def only(*names: str, arguments: str = "") -> str:
    """A configuration of these plugins alone, so that none hides another."""
    chosen = ", ".join(f"{{name: {name}}}" for name in ("PrioritySort", *names, "DefaultBinder"))
    enabled = f"    multiPoint:\n      disabled: [{{name: '*'}}]\n      enabled: [{chosen}]\n"
    return document(enabled, arguments)


def profile(r: random.Random) -> str:
    """A configuration with some arguments, and some plugins that are not where they usually are."""
    arguments = _strategy(r)
    if r.random() < 0.3:
        arguments += HARD % (r.randint(0, 100), r.choice(["true", "false"]))
    if r.random() < 0.3:
        arguments += ADDED
    if r.random() < 0.3:
        arguments += BALANCED
    return document(_plugins(r), arguments)


def _strategy(r: random.Random) -> str:
    which = r.random()
    if which < 0.25:
        return MOST % r.randint(1, 5)
    if which < 0.5:
        return RATIO % r.randint(20, 80)
    return LEAST if which < 0.6 else ""


def _plugins(r: random.Random) -> str:
    which = r.random()
    if which < 0.3:
        return TWO_SCORES % (r.randint(1, 9), r.randint(1, 9))
    if which < 0.5:
        return NO_TAINT_SCORE % r.randint(1, 20)
    if which < 0.6:
        return NO_TAINT_FILTER
    return NO_AFFINITY if which < 0.7 else ""
