"""Which clients are let in, for given answers of an API server."""

import asyncio
import json
from http import HTTPStatus
from typing import Any

import pytest

from eventsched.web import authorization
from eventsched.web.authorization import (
    ACCESS_REVIEW,
    ANONYMOUS,
    TOKEN_REVIEW,
    RequestRefusedError,
    Reviews,
    User,
    bearer,
)

PROMETHEUS = {"username": "prometheus", "uid": "7", "groups": ["scrapers"], "extra": {"a": ["b"]}}


class ApiServer:
    """Knows one token, and who may do what; ``asked`` are the paths of the reviews."""

    def __init__(self, **users: dict[str, Any]) -> None:
        self.users = users
        self.allowed = {("prometheus", "get", "/metrics"), ("system:anonymous", "get", "/version")}
        self.asked: list[str] = []
        self.bodies: list[dict[str, Any]] = []

    async def ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Reviews, as the API server does."""
        self.asked.append(path)
        review = json.loads(body)
        self.bodies.append(review)
        spec = review["spec"]
        if path == TOKEN_REVIEW:
            user = self.users.get(spec["token"])
            status = {"authenticated": user is not None, **({"user": user} if user else {})}
        else:
            attributes = spec["nonResourceAttributes"]
            wanted = (spec["user"], attributes["verb"], attributes["path"])
            status = {"allowed": wanted in self.allowed}
        return 201, json.dumps({**review, "status": status}).encode()


def outcome(reviews: Reviews, header: str, verb: str = "get", path: str = "/metrics") -> Any:
    """The user who was let in, or status and words of the refusal."""
    try:
        return asyncio.run(reviews.check(header, verb, path)).username
    except RequestRefusedError as refused:
        return int(refused.status), refused.message


@pytest.mark.parametrize(
    ("header", "verb", "path", "expected"),
    [
        ("Bearer good", "get", "/metrics", "prometheus"),
        ("bearer good", "get", "/metrics", "prometheus"),
        ("Bearer admin", "put", "/debug/flags/v", "root"),
        ("", "get", "/version", "system:anonymous"),
        (
            "",
            "get",
            "/metrics",
            (403, 'forbidden: User "system:anonymous" cannot get path "/metrics"'),
        ),
        (
            "Basic dTpw",
            "get",
            "/metrics",
            (403, 'forbidden: User "system:anonymous" cannot get path "/metrics"'),
        ),
        (
            "Bearer good",
            "put",
            "/debug/flags/v",
            (403, 'forbidden: User "prometheus" cannot put path "/debug/flags/v"'),
        ),
        (
            "Bearer stolen",
            "get",
            "/metrics",
            (401, "Unauthorized: the API server does not know this bearer token"),
        ),
    ],
)
def test_users_groups_and_paths_that_are_allowed(
    header: str, verb: str, path: str, expected: Any
) -> None:
    server = ApiServer(good=PROMETHEUS, admin={"username": "root", "groups": ["system:masters"]})
    assert outcome(Reviews(server.ask), header, verb, path) == expected


def test_the_reviews_contain_user_verb_and_path() -> None:
    server = ApiServer(good=PROMETHEUS)
    outcome(Reviews(server.ask), "Bearer good")
    assert server.bodies == [
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": "good"},
        },
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": "prometheus",
                "uid": "7",
                "groups": ["scrapers"],
                "extra": {"a": ["b"]},
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            },
        },
    ]


def test_the_user_is_that_of_the_token_review() -> None:
    server = ApiServer(good=PROMETHEUS)
    reviews = Reviews(server.ask)
    expected = User("prometheus", "7", ("scrapers",), {"a": ["b"]})
    assert asyncio.run(reviews.check("Bearer good", "get", "/metrics")) == expected
    assert asyncio.run(reviews.check("", "get", "/version")) == ANONYMOUS


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (403, b'{"message": "tokenreviews is forbidden"}'),
        (500, b""),
        (201, b"not json"),
        (201, b'{"status": {"authenticated": "yes"}}'),
        (None, b""),
    ],
)
def test_a_request_whose_reviews_fail_is_refused(status: int | None, body: bytes) -> None:
    async def ask(path: str, _: bytes) -> tuple[int, bytes]:
        if status is None:
            raise OSError("connection refused")
        return status, body

    words = "Internal Server Error: the TokenReview that decides on this request failed"
    assert outcome(Reviews(ask), "Bearer good") == (500, words)
    words = words.replace("TokenReview", "SubjectAccessReview")
    if body != b'{"status": {"authenticated": "yes"}}':
        assert outcome(Reviews(ask), "") == (500, words)


def test_an_answer_without_a_verdict_admits_no_client() -> None:
    async def ask(path: str, _: bytes) -> tuple[int, bytes]:
        return 201, b"{}"

    words = "Unauthorized: the API server does not know this bearer token"
    assert outcome(Reviews(ask), "Bearer good") == (401, words)
    assert outcome(Reviews(ask), "")[0] == 403


def test_a_denial_counts_more_than_a_permission() -> None:
    async def ask(path: str, _: bytes) -> tuple[int, bytes]:
        return 201, b'{"status": {"allowed": true, "denied": true, "reason": "no"}}'

    words = 'forbidden: User "system:anonymous" cannot get path "/metrics": no'
    assert outcome(Reviews(ask), "") == (403, words)


def test_reviews_are_cached_for_a_while() -> None:
    server = ApiServer(good=PROMETHEUS)
    now = [0.0]
    reviews = Reviews(server.ask, lambda: now[0])
    for header in ("Bearer good", "Bearer good", "Bearer bad", "Bearer bad"):
        outcome(reviews, header)
    assert server.asked == [TOKEN_REVIEW, ACCESS_REVIEW, TOKEN_REVIEW]
    now[0] = authorization.CACHE_SECONDS
    server.users.clear()
    assert outcome(reviews, "Bearer good")[0] == 401


def test_failed_reviews_are_not_cached() -> None:
    server = ApiServer(good=PROMETHEUS)
    fails = [True]

    async def ask(path: str, body: bytes) -> tuple[int, bytes]:
        if fails[0]:
            raise TimeoutError
        return await server.ask(path, body)

    reviews = Reviews(ask)
    assert outcome(reviews, "Bearer good")[0] == HTTPStatus.INTERNAL_SERVER_ERROR
    fails[0] = False
    assert outcome(reviews, "Bearer good") == "prometheus"


def test_unknown_clients_fill_neither_the_cache_nor_the_api_client() -> None:
    under_way, most = [0], [0]

    async def ask(path: str, _: bytes) -> tuple[int, bytes]:
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        await asyncio.sleep(0)
        under_way[0] -= 1
        return 201, b"{}"

    reviews = Reviews(ask)

    async def crowd() -> None:
        checks = (reviews.check(f"Bearer t{n}", "get", "/metrics") for n in range(3000))
        await asyncio.gather(*checks, return_exceptions=True)

    asyncio.run(crowd())
    assert most[0] == authorization._AT_ONCE
    assert len(reviews._tokens._entries) == authorization._MOST_REMEMBERED


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Bearer abc", "abc"),
        ("  bearer abc  ", "abc"),
        ("Bearer abc def", "abc"),
        ("Bearer", None),
        ("Bearer ", None),
        ("Bearer  abc", None),
        ("Basic abc", None),
        ("", None),
    ],
)
def test_the_token_in_a_header(header: str, expected: str | None) -> None:
    assert bearer(header) == expected
