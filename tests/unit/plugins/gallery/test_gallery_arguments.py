"""Arguments of the gallery's plugins that do not fit."""

import pytest

from eventsched.domain.errors import InputError
from eventsched.plugins import IN_TREE
from eventsched.plugins.gallery import GALLERY
from eventsched.runtime.assembly import assemble_loaded
from eventsched.scheduling.config import configuration

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"


@pytest.mark.parametrize(
    ("name", "args", "told"),
    [
        ("FixedNode", "{}", "c.yaml: profiles[0].pluginConfig[0].args.nodeName: nodeName is"),
        ("FixedNode", "{nodeName: ''}", "args.nodeName: is empty; name the preferred node"),
        ("FixedNode", "{node: a}", "args.node: unknown field 'node'; did you mean 'nodeName'?"),
        ("tonodename-scoring-plugin", "{nodeName: ''}", "args.nodeName: is empty"),
        ("tonodename-scoring-plugin", "{normalization: max}", "use one of default, minmax"),
        ("multipoint-communicating-plugin", "{podName: ''}", "args.podName: is empty"),
        ("NodeGroup", "{label: 'a b'}", "args.label: 'a b' is not a label's key; name one such as"),
        ("MyCustomPlugin", "{label: ''}", "args.label: '' is not a label's key"),
        ("PriorityLabel", "{label: '/x'}", "args.label: '/x' is not a label's key"),
        ("Priority", "{nameNodes: 5}", "args.nameNodes: an integer where true or false is due"),
        ("ImportanceSort", "{annotation: [a]}", "args.annotation: a list where a string is due"),
        ("RandomScore", "{seed: 1}", "takes no arguments"),
        ("NodeHardware", "{hardware: [{name: gpu}]}", "args.hardware[0].name: stands for one"),
        (
            "NodeHardware", "{hardware: [{name: gpu, label: a, resource: b}]}",
            "hardware[0].name: stands for one thing: a label or a resource",
        ),
        (
            "NodeHardware", "{hardware: [{name: a, label: b}, {name: a, label: c}]}",
            "args.hardware[1].name: 'a' comes twice; keep one of them",
        ),
        ("NodeHardware", "{hardware: [{name: a, label: 'x y'}]}", "[0].label: 'x y' is not a qual"),
        (
            "NodeResourcesAllocatable", "{resources: [{name: memory, weight: -1}, {name: cpu}]}",
            "args.resources[0].weight: -1 is out of range; use 1 or more",
        ),
        (
            "NodeResourcesAllocatable", "{resources: [{name: memory, weight: 1}, {name: cpu}]}",
            "args.resources[1].weight: 0 is out of range; use 1 or more",
        ),
        ("NodeResourcesAllocatable", "{mode: Some}", "args.mode: 'Some' "),
        (
            "NodeResourcesAllocatable",
            "{resources: [{name: cpu, weight: 9223372036854775807}, {name: a.b/c, weight: 1}]}",
            "args.resources: the weights add up to more than 9223372036854775807; divide",
        ),
        (
            "NodeResourceTopologyMatch", "{scoringStrategy: {type: Least}}",
            "args.scoringStrategy.type: 'Least' is not supported; use MostAllocated, ",
        ),
        (
            "NodeResourceTopologyMatch", "{scoringStrategy: {resources: [{name: cpu}]}}",
            "args.scoringStrategy.type: '' is not supported",
        ),
        (
            "NodeResourceTopologyMatch",
            "{scoringStrategy: {type: LeastAllocated, resources: [{name: a, weight: "
            "9007199254740992}, {name: b}]}}",
            "args.scoringStrategy.resources: the weights add up to more than 9007199254740992",
        ),
        (
            "NodeResourceTopologyMatch", "{preemptionMode: Enabled}",
            "args.preemptionMode: 'Enabled' is not supported; remove it or use Disabled",
        ),
        (
            "NodeResourceTopologyMatch", "{cache: {resyncMethod: All}}",
            "args.cache.resyncMethod: 'All' is not supported; remove it or use Autodetect",
        ),
        (
            "NodeResourceTopologyMatch", "{cache: {resyncScope: OnlyResources}}",
            "args.cache.resyncScope: 'OnlyResources' is not supported",
        ),
        (
            "NodeResourceTopologyMatch", "{cache: {foreignPodsDetect: Some}}",
            "args.cache.foreignPodsDetect: 'Some' is not supported; use All, None or Only",
        ),
        ("NodeResourceTopologyMatch", "{cache: {informer: Shared}}", "did you mean 'informerMode'"),
        ("NodeResourceTopologyMatch", "{cacheResyncPeriodSeconds: 5s}", "a string where an int"),
        ("FirstScheduledNode", "{ttl: soon}", "args.ttl: 'soon' is not a duration; write one such"),
        ("FirstScheduledNode", "{ttl: -1s}", "args.ttl: -1s is out of range; use 1s or more"),
        ("FirstScheduledNode", "{ttl: 1ns}", "args.ttl: 1ns is out of range; use 1s or more"),
        ("FirstScheduledNode", "{maxEntries: -1}", "args.maxEntries: -1 is out of range; use 0 to"),
        ("FirstScheduledNode", "{maxEntries: 2h}", "args.maxEntries: "),
        ("FirstScheduledNode", "{key: annotation}", "args.keyAnnotation: key: annotation needs"),
        (
            "FirstScheduledNode", "{keyAnnotation: a}",
            "args.keyAnnotation: has no effect with key: name",
        ),
        ("FirstScheduledNode", "{mode: maybe}", "args.mode: "),
        ("FirstScheduledNode", "{whenGone: cry}", "use one of forget, wait"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(name: str, args: str, told: str) -> None:
    """File, path of the field and remedy."""
    text = (
        f"{HEAD}- plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}\n"
        f"  pluginConfig: [{{name: {name}, args: {args}}}]\n"
    )
    if name == "ImportanceSort":
        text = text.replace("multiPoint: {", "queueSort: {disabled: [{name: '*'}], ")
    with pytest.raises(InputError) as refused:
        assemble_loaded(configuration.load(text, "c.yaml"), "c.yaml", IN_TREE)
    assert told in str(refused.value)


def test_none_of_them_runs_by_default() -> None:
    """They have to be enabled."""
    running = assemble_loaded(configuration.default(), "c.yaml", IN_TREE).sources
    assert not running.keys() & {plugin.name for plugin in GALLERY}
    assert len({plugin.name for plugin in GALLERY}) == len(GALLERY)
