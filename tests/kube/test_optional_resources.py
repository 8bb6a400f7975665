"""Resources that only some plugins read, and whose definition may not be installed."""

from typing import Any

from eventsched.cluster.kube.watch.resources import OPTIONAL, watched
from eventsched.cluster.messages import Listed, ObjectGone, ObjectSeen, Relisted
from eventsched.domain.objects.registry import ElasticQuota
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import assemble_loaded
from eventsched.scheduling.config import configuration
from tests.kube.fakeapi import PODS
from tests.kube.watched import run, serving, until

(QUOTAS,) = [each for each in OPTIONAL if each.type == "ElasticQuota"]
TEXT = "CustomResourceDefinition elasticquotas.scheduling.x-k8s.io is not installed"


def quota(name: str = "team", cpu: str = "4") -> dict[str, Any]:
    """One as an API server shows it."""
    spec = {"min": {"cpu": cpu, "memory": "8Gi"}, "max": {"cpu": 8}}
    return {"metadata": {"name": name, "namespace": "blue"}, "spec": spec}


def test_only_what_plugins_read_is_watched() -> None:
    """The configuration decides which plugins run."""
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    text = (
        f"{head}profiles:\n- plugins: {{multiPoint: {{enabled: [{{name: CapacityScheduling}}]}}}}\n"
    )
    for given, reads in ((head, set()), (text, {"ElasticQuota"})):
        assert assemble_loaded(configuration.load(given, "c"), "c", IN_TREE).optional_types == reads
    assert QUOTAS in watched({"ElasticQuota"})
    assert QUOTAS not in watched(())


def test_quotas_are_read() -> None:
    """Amounts are in millicores and bytes. Updates of the status are not published."""

    async def scenario() -> None:
        async with serving(QUOTAS) as (server, kept):
            server.put(QUOTAS, quota())
            (listing,) = (await kept.follow()).listings
            (seen,) = listing.seen
            assert isinstance(seen, ObjectSeen)
            limits = {"cpu": 4000, "memory": 8 * 2**30}, {"cpu": 8000}
            assert seen.object == ElasticQuota("team", "blue", *limits)
            server.put(QUOTAS, {**quota(), "status": {"used": {"cpu": "1"}}})
            server.put(QUOTAS, quota(cpu="5"))
            server.remove(QUOTAS, "blue/team")
            await kept.caught_up()
            changes = [event for event in kept.events if not isinstance(event, Listed)]
            assert [type(change) for change in changes] == [ObjectSeen, ObjectGone]

    run(scenario())


def test_a_missing_definition_does_not_stop_the_start() -> None:
    """Everything is listed; a warning and the watch's problem say what to do; one report for all
    the times that it is asked for; and it is read once it is installed, and gone when it is not."""

    async def scenario() -> None:
        async with serving(PODS, QUOTAS) as (server, kept):
            server.missing.add(QUOTAS.type)
            await kept.store.start()
            first = await kept.store.list_cluster(kept.events.append)
            assert [each.seen for each in first.listings] == [[], []]
            assert first.listings[1].version == 10
            await until(lambda: kept.slept.count(10.0) > 3)
            assert kept.store.progress[QUOTAS.type].problem == TEXT
            assert kept.store.progress[PODS.type].problem == ""
            (report,) = kept.reports_of("resource_missing")
            assert report["definition"] == QUOTAS.definition
            assert len(kept.events) == 1

            server.put(QUOTAS, quota())
            server.missing.clear()
            await until(lambda: len(kept.events) == 2)
            relisted = kept.events[1]
            assert isinstance(relisted, Relisted)
            assert len(relisted.listing.seen) == 1
            await until(lambda: not kept.store.progress[QUOTAS.type].problem)
            server.put(QUOTAS, quota(cpu="5"))
            await until(lambda: len(kept.events) == 3)

            server.missing.add(QUOTAS.type)
            server.version += 1
            server.say(QUOTAS, None)
            await until(lambda: len(kept.events) == 4)
            relisted = kept.events[3]
            assert isinstance(relisted, Relisted)
            assert relisted.listing.seen == []
            assert kept.store.progress[QUOTAS.type].problem == TEXT

    run(scenario())


def test_the_barrier_passes_without_the_definition() -> None:
    """A takeover does not wait for it."""

    async def scenario() -> None:
        async with serving(PODS, QUOTAS) as (server, kept):
            server.missing.add(QUOTAS.type)
            await kept.store.start()
            listed = await kept.store.list_cluster()
            assert [each.resource for each in listed.listings] == ["Pod", "ElasticQuota"]

    run(scenario())
