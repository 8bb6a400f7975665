"""A store's view of a real API server, and how it recovers when that server, or the network to it,
fails. Numbers of ``row`` are rows of the failure matrix."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from eventsched.cluster.kube.http.access import connect
from eventsched.cluster.kube.watch.cluster_store import ClusterStore
from eventsched.cluster.kube.watch.reconnecting import Pace
from eventsched.cluster.kube.watch.resources import RESOURCES
from eventsched.cluster.messages import (
    Listed,
    NodeSeen,
    ObjectSeen,
    PodGone,
    PodSeen,
    Relisted,
    WatchEvent,
)
from eventsched.cluster.translate import cluster_objects, manifest
from eventsched.domain.errors import InputError
from tests.cluster.harness import manifests
from tests.cluster.harness.client import Object
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.tcp_proxy import TcpProxy


class World:
    """A store of a control plane. ``messages`` are what it delivers, ``reports`` what it logs. The
    requests of the test run beside it."""

    def __init__(self, store: ClusterStore, reports: list[tuple[str, dict[str, object]]]) -> None:
        self.store = store
        self.reports = reports
        self.messages: list[WatchEvent | Listed] = []

    async def follow(self) -> Listed:
        """The present objects; later changes go to ``messages``."""
        return await self.store.list_cluster(self.messages.append)

    async def until(self, condition: Callable[[], bool], within: float = 60.0) -> None:
        """Waits for a condition. Raises TimeoutError."""
        async with asyncio.timeout(within):
            while not condition():
                await asyncio.sleep(0.01)

    def news(self, namespace: str) -> list[str]:
        """Short descriptions of the changes of a namespace's pods after the first list."""
        known = {
            seen.pod.uid: seen.pod
            for event in self.messages
            for seen in _pods(event)
            if seen.pod.namespace == namespace
        }
        news = []
        for event in self.messages[1:]:
            match event:
                case PodSeen(pod=seen) if seen.uid in known:
                    news.append(f"{seen.name} {seen.node_name}".strip())
                case PodGone(uid=uid) if uid in known:
                    news.append(f"gone {known[uid].name}")
        return news

    def pods(self, namespace: str) -> set[str]:
        """The names of a namespace's pods."""
        seen = self.store.stores["Pod"].seen.values()
        return {
            each.pod.name
            for each in seen
            if isinstance(each, PodSeen) and each.pod.namespace == namespace
        }

    def progress(self, name: str = "Pod") -> tuple[int, int]:
        """Relists and reconnects."""
        found = self.store.progress[name]
        return found.relists, found.reconnects

    def refused(self, name: str) -> int:
        """How many watches the server refused because they began before its history."""
        return sum(
            event == "watch_broken"
            and more["resource"] == name
            and "too old resource version" in str(more["reason"])
            for event, more in self.reports
        )


def _pods(event: WatchEvent | Listed) -> list[PodSeen]:
    match event:
        case Listed(listings=listings):
            return [each for found in listings for each in found.seen if isinstance(each, PodSeen)]
        case Relisted(listing=listing):
            return [each for each in listing.seen if isinstance(each, PodSeen)]
        case PodSeen():
            return [event]
    return []


@asynccontextmanager
async def following(kubeconfig: Path, **pace: Any) -> AsyncIterator[World]:
    """A store that has been started."""
    reports: list[tuple[str, dict[str, object]]] = []
    api = await connect(kubeconfig, environ={})
    store = ClusterStore(
        api, lambda level, event, **more: reports.append((event, more)), pace=Pace(**pace)
    )
    try:
        await store.start()
        yield World(store, reports)
    finally:
        await store.close()
        await api.close()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(180):
            await scenario

    asyncio.run(bounded())


def rich_pod(name: str) -> Object:
    """A pod that uses much of what scheduling reads."""
    selector = {"matchLabels": {"app": "web"}}
    term = {"labelSelector": selector, "topologyKey": "zone", "matchLabelKeys": ["hash"]}
    made = pod(
        name,
        labels={"app": "web", "hash": "1"},
        annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"},
        priorityClassName="system-node-critical",
        nodeSelector={"disk": "ssd"},
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
        affinity={
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 5,
                        "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]},
                    }
                ]
            },
        },
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            }
        ],
        schedulingGates=[{"name": "example.com/wait"}],
        volumes=[
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "tmp", "emptyDir": {}},
            {
                "name": "own",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1Gi"}},
                        }
                    }
                },
            },
        ],
    )
    made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    made["spec"]["initContainers"] = [
        {"name": "side", "image": "side:1", "restartPolicy": "Always"}
    ]
    return made


def translated(kind: str, obj: Object) -> Any:
    """What the translation of the whole object gives."""
    if kind == "Pod":
        return manifest.pod(obj, "", defaults=False)
    if kind == "Node":
        return manifest.node(obj, "")
    return cluster_objects.read(kind, obj, "", defaults=False)


def content(seen: Any) -> Any:
    match seen:
        case PodSeen(pod=found) | NodeSeen(node=found) | ObjectSeen(object=found):
            return found


def test_a_store_shows_what_the_server_has(plane: ControlPlane, namespace: str) -> None:
    client = plane.admin
    client.create(node("a", labels={"zone": "1"}, taints=[manifests.taint("k")]))
    client.create(manifests.storage_class("fast"))
    client.create(manifests.claim("data", "fast"), namespace)
    client.create(manifests.volume("disk", "fast", node="a"))
    client.create(manifests.budget("web", {"app": "web"}, 1), namespace)
    for each in (*manifests.owners("db"), pod("plain"), rich_pod("rich")):
        client.create(each, namespace)
    for each in manifests.csi("example.org", node="a", storage_class="fast", volume="disk"):
        client.create(each, namespace)

    async def scenario() -> None:
        async with following(plane.kubeconfig, page=2) as world:
            listed = await world.follow()
            for listing in listed.listings:
                objects = await asyncio.to_thread(client.list, listing.resource)
                shown = sorted((content(each) for each in listing.seen), key=repr)
                expected = [translated(listing.resource, each) for each in objects]
                assert shown == sorted(expected, key=repr), listing.resource
                versions = {each.resource_version for each in listing.seen}
                assert versions == {int(each["metadata"]["resourceVersion"]) for each in objects}
            counts = {each.resource: len(each.seen) for each in listed.listings}
            assert counts["Pod"] == 2
            assert list(counts) == [each.type for each in RESOURCES]
            assert [name for name, count in counts.items() if not count] == []
            assert list(world.store.undecodable) == []

    run(scenario())


@pytest.mark.row(13)
@pytest.mark.parametrize("few", [0, 2000])
def test_the_barrier_shows_all_that_was_written_before_it(
    plane: ControlPlane, namespace: str, few: int
) -> None:
    client = plane.admin

    async def scenario() -> None:
        async with following(plane.kubeconfig, few=few) as world:
            for number in range(5):
                await asyncio.to_thread(client.create, pod(f"p{number}"), namespace)
                await world.follow()
                assert world.pods(namespace) == {f"p{each}" for each in range(number + 1)}
            version = await asyncio.to_thread(plane.revision)
            await world.follow()
            assert min(world.store.versions.values()) >= version
            assert {world.progress(name)[0] for name in world.store.versions} == {0}

    run(scenario())


@pytest.mark.row(21)
def test_pods_come_change_and_go(plane: ControlPlane, namespace: str) -> None:
    client = plane.admin

    def happenings() -> None:
        one, two = (client.create(pod(name), namespace) for name in ("one", "two"))
        client.bind(one, "a")
        client.delete("Pod", "two", namespace)
        status = {"status": {"phase": "Succeeded"}}
        client.patch("Pod", "one", status, namespace, subresource="status")
        client.delete("Pod", "one", namespace)
        client.create(pod("three"), namespace)
        assert two

    async def scenario() -> None:
        async with following(plane.kubeconfig) as world:
            await world.follow()
            await asyncio.to_thread(happenings)
            await world.until(lambda: world.pods(namespace) == {"three"})

            news = world.news(namespace)
            assert [each for each in news if "two" not in each] == [
                "one",
                "one a",
                "gone one",
                "three",
            ]
            assert news.count("gone two") == 1

    run(scenario())


@pytest.mark.row(20)
@pytest.mark.parametrize("changed", [False, True], ids=["unchanged", "changed meanwhile"])
def test_a_server_that_starts_again_is_watched_from_where_it_was(
    own_plane: ControlPlane, changed: bool
) -> None:
    client = own_plane.admin

    def restart() -> None:
        if changed:
            own_plane.store("/registry/example.com/thing", b"{}")
        own_plane.apiserver.start()
        own_plane.wait_ready()
        client.create(pod("two"), "default")

    async def scenario() -> None:
        async with following(own_plane.kubeconfig) as world:
            await world.follow()
            await asyncio.to_thread(client.create, pod("one"), "default")
            await world.until(lambda: world.pods("default") == {"one"})
            version = world.store.versions["Pod"]
            await asyncio.to_thread(own_plane.apiserver.kill)
            await world.until(lambda: world.store.progress["Pod"].problem != "")
            await asyncio.to_thread(restart)
            await world.until(lambda: world.pods("default") == {"one", "two"})

            relists, reconnects = world.progress()
            assert reconnects > 0
            # A server that starts refuses watches from before the state that it has read. At its
            # start it also writes objects itself, at times before it reads the pods.
            refused = world.refused("Pod")
            assert relists == refused
            assert refused == 1 if changed else refused <= 1
            again = [each for each in world.messages if isinstance(each, Relisted)]
            of_pods = [each for each in again if each.listing.resource == "Pod"]
            assert [each.since for each in of_pods] == [version] * refused
            listed = {each.pod.name for relisted in of_pods for each in _pods(relisted)}
            assert world.news("default") == ["one", *({"two"} - listed)]
            await world.until(lambda: world.store.progress["Node"].problem == "")

    run(scenario())


@pytest.mark.row(20)
def test_lost_history_is_listed_again(own_plane: ControlPlane) -> None:
    client = own_plane.admin
    for name in ("one", "two"):
        client.create(pod(name), "default")
    address = urlsplit(own_plane.url)
    proxy = TcpProxy(str(address.hostname), int(address.port or 0))
    user = {"token": own_plane.token("admin")}
    kubeconfig = own_plane.write_kubeconfig("proxied", user, f"https://127.0.0.1:{proxy.port}")

    def meanwhile() -> None:
        proxy.go_down()
        client.delete("Pod", "one", "default")
        client.create(pod("three"), "default")
        client.bind(client.get("Pod", "two", "default"), "a")
        own_plane.forget_history()
        proxy.come_back()

    async def scenario() -> None:
        async with following(kubeconfig) as world:
            first = await world.follow()
            await asyncio.to_thread(meanwhile)
            await world.until(lambda: world.pods("default") == {"two", "three"})
            (again,) = (
                each
                for each in world.messages
                if isinstance(each, Relisted) and each.listing.resource == "Pod"
            )
            versions = {each.resource: each.version for each in first.listings}
            assert again.since == versions["Pod"]
            assert {(each.pod.name, each.pod.node_name) for each in _pods(again)} == {
                ("two", "a"),
                ("three", ""),
            }

    with proxy:
        run(scenario())


@pytest.mark.row(20)
def test_a_way_that_swallows_everything_is_given_up(plane: ControlPlane, namespace: str) -> None:
    client = plane.admin
    address = urlsplit(plane.url)
    with TcpProxy(str(address.hostname), int(address.port or 0)) as proxy:
        user = {"token": plane.token("admin")}
        kubeconfig = plane.write_kubeconfig("proxied", user, f"https://127.0.0.1:{proxy.port}")

        async def scenario() -> None:
            async with following(kubeconfig, stall=1.0) as world:
                await world.follow()
                proxy.stall()
                await asyncio.to_thread(client.create, pod("one"), namespace)
                await world.until(lambda: world.store.progress["Pod"].problem != "")
                proxy.cut()
                proxy.resume()
                await world.until(lambda: world.pods(namespace) == {"one"})
                assert world.progress()[0] == 0

        run(scenario())


@pytest.mark.row(22)
def test_an_object_that_cannot_be_read_is_shown_and_skipped(own_plane: ControlPlane) -> None:
    client = own_plane.admin
    good = client.create(pod("good"), "default")

    def spoil(name: str) -> None:
        """As a server of another version might have stored it."""
        stored = json.loads(json.dumps(good))
        stored["metadata"]["name"] = name
        stored["metadata"]["uid"] = good["metadata"]["uid"][:-4] + "0000"
        del stored["metadata"]["resourceVersion"]
        stored["spec"]["tolerations"] = [{"key": "a", "effect": "Sometimes"}]
        own_plane.store(f"/registry/pods/default/{name}", json.dumps(stored).encode())

    async def scenario() -> None:
        async with following(own_plane.kubeconfig) as world:
            await world.follow()
            await asyncio.to_thread(spoil, "bad")
            await asyncio.to_thread(client.create, pod("next"), "default")
            await world.until(lambda: world.pods("default") == {"good", "next"})

            (found,) = world.store.undecodable
            assert (found.resource, found.name, found.kept) == ("Pod", "default/bad", False)
            assert found.reason == ("spec.tolerations[0].effect is 'Sometimes', which is not known")
            assert [event for event, _ in world.reports] == ["object_not_readable"]

            await asyncio.to_thread(client.delete, "Pod", "bad", "default")
            await world.until(lambda: not list(world.store.undecodable))

    run(scenario())


# --- who may not --------------------------------------------------------------------------


async def refused(kubeconfig: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        async with following(kubeconfig):
            raise AssertionError("it was let in")
    return caught.value


def test_a_refused_list_names_the_rule_to_add(plane: ControlPlane) -> None:
    kubeconfig = plane.write_kubeconfig("nobody", {"token": plane.token("nobody")})
    error = asyncio.run(refused(kubeconfig))
    assert 'User "nobody" cannot list resource' in error.problem
    assert error.remedy.startswith("add to the scheduler's ClusterRole the rule {apiGroups: [")
    assert error.remedy.endswith('verbs: ["list", "watch"]}')


def test_an_unknown_user_is_reported(plane: ControlPlane) -> None:
    error = asyncio.run(refused(plane.write_kubeconfig("wrong", {"token": "wrong"})))
    assert error.problem == "does not know who we are: Unauthorized"
    error = asyncio.run(refused(plane.certificate_kubeconfig("late", seconds=-60)))
    assert "the client certificate expired at" in error.problem


def test_a_certificate_is_enough(plane: ControlPlane) -> None:
    async def scenario() -> None:
        kubeconfig = plane.certificate_kubeconfig("someone", ["system:masters"])
        async with following(kubeconfig) as world:
            assert (await world.follow()).listings

    run(scenario())
