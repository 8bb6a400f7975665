"""How a store goes on when watches break, lists expire and objects cannot be read."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from eventsched.domain.errors import InputError
from tests.kube.fakeapi import (
    NODES,
    PODS,
    FakeApi,
    cut,
    ending,
    expired,
    pod,
    refusal,
    silence,
    uid,
)
from tests.kube.watched import asked, listed, run, serving, short, until

# --- what breaks --------------------------------------------------------------------------


def test_a_watch_that_ends_is_resumed_at_its_version() -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            await watched.follow()
            server.put(PODS, pod(1))
            await watched.caught_up()
            server.bookmark(PODS)
            watched.now += 400
            server.say(PODS, None)
            await until(lambda: len(asked(server, "watch", "Pod")) == 2)
            server.put(PODS, pod(2))
            await watched.caught_up()

            assert [each["resourceVersion"] for each in asked(server, "watch", "Pod")] == [
                "10",
                "11",
            ]
            assert [short(each) for each in watched.events[1:]] == ["p1@11", "p2@12"]
            assert watched.slept == []
            assert watched.reports == []
            progress = watched.store.progress["Pod"]
            assert (progress.reconnects, progress.relists, progress.problem) == (1, 0, "")

    run(scenario())


@pytest.mark.parametrize(
    "fault", [cut, refusal(500, "etcd is unreachable"), ending(("ERROR", {"code": 500}))]
)
def test_a_watch_that_breaks_is_resumed_after_a_pause(fault: Any) -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            server.fail("watch", PODS, fault, fault, fault)
            await watched.store.start()
            await watched.store.list_cluster(watched.events.append)
            server.put(PODS, pod(1))
            await watched.caught_up()

            assert [short(each) for each in watched.events[1:]] == ["p1@11"]
            assert watched.slept == pytest.approx([1.2, 2.4, 4.8])
            assert len(asked(server, "list", "Pod")) == 2  # the first one, and the barrier's
            assert [each["resource"] for each in watched.reports_of("watch_broken")] == ["Pod"] * 3

    run(scenario())


def test_a_watch_that_lasted_is_resumed_at_once() -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            await watched.follow()
            watched.now += 60
            server.say(PODS, b'{"type":"ERROR","object":{"code":500,"message":"overload"}}\n')
            await until(lambda: len(asked(server, "watch", "Pod")) == 2)

            assert watched.slept == []
            assert watched.reports_of("watch_broken") == [
                {"resource": "Pod", "reason": "overload", "pause": 0.0}
            ]

    run(scenario())


def test_watches_that_end_at_once_are_opened_with_pauses() -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            server.fail("watch", PODS, *[ending()] * 8)
            await watched.follow()
            assert watched.slept == pytest.approx([1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 45, 45])

    run(scenario())


def test_a_silent_watch_is_closed() -> None:
    async def scenario() -> None:
        async with serving(PODS, stall=0.2) as (server, watched):
            server.fail("watch", PODS, silence)
            await watched.store.start()
            await watched.store.list_cluster(watched.events.append)
            server.put(PODS, pod(1))
            await until(lambda: len(watched.events) == 2)

            assert short(watched.events[1]) == "p1@11"
            assert watched.reports_of("watch_broken")[0]["reason"] == "no answer in time"

    run(scenario())


def test_the_first_reflector_that_reaches_the_server_wakes_the_others() -> None:
    """Otherwise a watch could sleep for most of a minute after the server is back."""
    sleeping: list[asyncio.Event] = []

    async def sleep(seconds: float) -> None:
        sleeping.append(asyncio.Event())
        await sleeping[-1].wait()

    async def scenario() -> None:
        async with serving(NODES, PODS, sleep=sleep) as (server, watched):
            server.fail("watch", PODS, cut)
            server.fail("watch", NODES, cut)
            await watched.store.start()
            await until(lambda: len(sleeping) == 2)
            sleeping[0].set()
            await until(lambda: len(server.watches.get("Node", [])) == 1)
            await until(lambda: len(server.watches.get("Pod", [])) == 1)
            assert not sleeping[1].is_set()  # it was woken

    run(scenario())


def test_the_pause_is_that_of_retry_after() -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            put_off = refusal(429, "too many requests", **{"Retry-After": "7"})
            server.fail("watch", PODS, put_off)
            await watched.follow()
            assert watched.slept == [7]
            assert len(asked(server, "list", "Pod")) == 2

    run(scenario())


def expired_answer(server: FakeApi) -> None:
    server.oldest = server.version


def expired_event(server: FakeApi) -> None:
    server.fail("watch", PODS, expired())


@pytest.mark.parametrize("how", [expired_answer, expired_event])
def test_missed_changes_are_found_by_a_new_list(how: Callable[[FakeApi], None]) -> None:
    async def scenario() -> None:
        async with serving(PODS, page=1) as (server, watched):
            for number in (1, 2, 3):
                server.put(PODS, pod(number))
            await watched.follow()
            lost = server.watches["Pod"][0]
            server.watches["Pod"].clear()
            server.remove(PODS, "default/p1")
            server.put(PODS, pod(2, on="n1"))
            server.put(PODS, pod(4))
            how(server)
            server.watches["Pod"].append(lost)
            watched.now += 60
            server.say(PODS, None)
            await until(lambda: len(watched.events) == 2)
            server.put(PODS, pod(5))
            await watched.caught_up()

            assert [short(each) for each in watched.events[1:]] == [
                ("13 -> 16", ["p2@15 n1", "p3@13", "p4@16"]),
                "p5@17",
            ]
            assert watched.store.progress["Pod"].relists == 1

    run(scenario())


def test_a_server_that_is_back_without_its_history_is_listed_soon() -> None:
    """An API server that was started again answers 410 to every watch. The pauses that have grown
    while it was down are not for that answer; those after 410 again grow by themselves."""

    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            server.fail("watch", PODS, cut, cut, cut, cut, expired(), expired(), cut, expired())
            await watched.follow()
            assert watched.slept == pytest.approx([1.2, 2.4, 4.8, 9.6, 1.2, 2.4, 4.8, 1.2])
            assert watched.store.progress["Pod"].relists == 3

    run(scenario())


def test_a_list_whose_pages_expire_is_restarted() -> None:
    async def scenario() -> None:
        async with serving(PODS, page=1) as (server, watched):
            for number in (1, 2):
                server.put(PODS, pod(number))

            def second(request: Any) -> Any:
                server.fail("list", PODS, refusal(410, "the page has expired"))
                return server._list(request, PODS)

            server.fail("list", PODS, second)
            await watched.follow()
            assert list(watched.store.stores["Pod"].seen) == [uid(1), uid(2)]
            assert watched.slept == pytest.approx([1.2])

    run(scenario())


def test_a_restored_cluster_is_reported() -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            server.put(PODS, pod(1))
            server.put(PODS, pod(2))
            await watched.follow()
            server.log.clear()
            del server.objects["Pod"]["default/p2"]
            server.version = 11
            watched.now += 60
            server.say(
                PODS, b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"11"}}}\n'
            )
            await until(lambda: len(watched.events) == 2)

            assert short(watched.events[1]) == ("12 -> 11", ["p1@11"])
            assert watched.reports_of("cluster_went_back") == [
                {"resource": "Pod", "known": 12, "found": 11}
            ]

    run(scenario())


def put_back(server: FakeApi) -> None:
    """Restores the server to the state before p2 existed; its watches do not notice."""
    del server.objects["Pod"]["default/p2"]
    server.log.clear()
    server.version = 11


@pytest.mark.row(30)
@pytest.mark.parametrize("few", [0, 2000])
def test_a_barrier_notices_a_restored_cluster(few: int) -> None:
    """Large resources are listed too then, and a watch from a later version is opened again."""

    async def scenario() -> None:
        async with serving(PODS, few=few) as (server, watched):
            server.put(PODS, pod(1))
            server.put(PODS, pod(2))
            await watched.follow()
            put_back(server)
            found = await watched.store.list_cluster(watched.events.append)
            assert [listed(each) for each in found.listings] == [("Pod", 11, ["p1@11"])]
            await until(lambda: asked(server, "watch", "Pod")[-1]["resourceVersion"] == "11")
            server.put(PODS, pod(3))
            await until(lambda: short(watched.events[-1]) == "p3@12")

    run(scenario())


@pytest.mark.row(30)
def test_a_silent_watch_leads_to_a_check_for_a_restore() -> None:
    """The watch began at a version that the restored server has not reached: it gets no event and
    no error."""

    async def scenario() -> None:
        async with serving(PODS, stall=0.2) as (server, watched):
            server.put(PODS, pod(1))
            server.put(PODS, pod(2))
            await watched.follow()
            put_back(server)
            server.fail("watch", PODS, silence)
            watched.now += 60
            await until(lambda: len(watched.events) == 2)
            assert short(watched.events[1]) == ("12 -> 11", ["p1@11"])

    run(scenario())


# --- what cannot be read ------------------------------------------------------------------


def test_objects_that_cannot_be_read_are_skipped_and_remembered() -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            server.put(PODS, pod(1, priority="high"))
            server.put(PODS, pod(2))
            first = await watched.follow()
            server.put(PODS, pod(3, tolerations=7))
            server.put(PODS, pod(2, on="n1", priority="low"))
            server.put(PODS, pod(2, on="n1", priority="low", hostNetwork=True))
            await watched.caught_up()

            assert [listed(each) for each in first.listings] == [("Pod", 12, ["p2@12"])]
            assert watched.events[1:] == []
            assert [
                (each.name, each.reason, each.version, each.kept)
                for each in watched.store.undecodable
            ] == [
                ("default/p1", "spec.priority is not a whole number ('high')", 11, False),
                ("default/p3", "spec.tolerations is not a list (7)", 13, False),
                ("default/p2", "spec.priority is not a whole number ('low')", 15, True),
            ]
            reports = watched.reports_of("object_not_readable")
            assert [(report["object"], report["kept"]) for report in reports] == [
                ("default/p1", False),
                ("default/p3", False),
                ("default/p2", True),
            ]

            server.put(PODS, pod(1))
            server.remove(PODS, "default/p2")
            server.remove(PODS, "default/p3")
            await watched.caught_up()
            assert [short(each) for each in watched.events[1:]] == ["p1@16", "gone p2@17"]
            assert list(watched.store.undecodable) == []

    run(scenario())


def test_an_object_that_became_undecodable_survives_a_list() -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            server.put(PODS, pod(1))
            server.put(PODS, pod(2))
            await watched.follow()
            server.put(PODS, pod(1, priority="high"))
            await watched.caught_up()
            server.remove(PODS, "default/p2")
            server.fail("watch", PODS, expired())
            watched.now += 60
            server.put(PODS, pod(3))
            lost = server.watches["Pod"][0]
            lost.put_nowait(None)
            await until(lambda: watched.store.progress["Pod"].relists == 1)

            assert set(watched.store.stores["Pod"].seen) == {uid(1), uid(3)}
            (left,) = watched.store.undecodable
            assert (left.name, left.kept) == ("default/p1", True)
            assert len(watched.reports_of("object_not_readable")) == 1

    run(scenario())


def test_lines_of_nonsense_do_not_stop_a_watch() -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            await watched.follow()
            server.say(PODS, b"<html>\n")
            server.say(PODS, b"\n")
            server.put(PODS, pod(1))
            await watched.caught_up()

            assert [short(each) for each in watched.events[1:]] == ["p1@11"]
            assert len(watched.reports_of("object_not_readable")) == 1

    run(scenario())


# --- the beginning ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (401, "log in again"),
        (403, 'the rule {apiGroups: [""], resources: ["pods"], verbs: ["list", "watch"]}'),
        (404, "its Kubernetes is 1.26 or later"),
    ],
)
def test_a_refusal_of_the_first_list_ends_the_start(status: int, remedy: str) -> None:
    async def scenario() -> None:
        async with serving() as (server, watched):
            server.fail("list", PODS, refusal(status, "pods: no"))
            with pytest.raises(InputError, match=r"pods of the API server .*: pods: no") as caught:
                await watched.store.start()
            assert remedy in caught.value.remedy

    run(scenario())


def test_the_first_list_waits_for_an_unreachable_server() -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            server.put(PODS, pod(1))
            server.fail("list", PODS, cut, cut, refusal(503, "starting"))
            first = await watched.follow()
            assert [listed(each) for each in first.listings] == [("Pod", 11, ["p1@11"])]
            assert watched.slept == pytest.approx([1.2, 2.4, 4.8])

    run(scenario())


def test_a_refusal_after_the_first_list_is_only_reported() -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            await watched.follow()
            server.fail("watch", PODS, refusal(403, "pods: no"))
            watched.now += 60
            server.say(PODS, None)
            await until(lambda: len(asked(server, "watch", "Pod")) == 3)
            server.put(PODS, pod(1))
            await watched.caught_up()

            assert watched.reports_of("watch_broken")[0]["reason"] == "pods: no"
            assert [short(each) for each in watched.events[1:]] == ["p1@11"]

    run(scenario())


def test_an_exception_in_a_reflector_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            await watched.follow()
            monkeypatch.setattr(watched.store.stores["Pod"], "take", lambda decoded: 1 / 0)
            server.put(PODS, pod(1))
            with pytest.raises(ZeroDivisionError):
                await watched.store.broken()

    run(scenario())


def test_progress_shows_the_state_of_a_watch() -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            assert watched.store.progress["Pod"].problem == "not listed yet"
            await watched.follow()
            watched.now = 5.0
            server.put(PODS, pod(1))
            server.bookmark(PODS)
            await until(lambda: watched.store.progress["Pod"].lines == 2)

            progress = watched.store.progress["Pod"]
            assert (progress.last_line, progress.relists, progress.reconnects) == (5.0, 0, 0)
            assert progress.problem == ""

    run(scenario())
