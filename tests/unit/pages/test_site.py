"""The pages over an API whose answers are given."""

import asyncio
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventsched.cli.output.time_format import read_moment
from eventsched.pages.assets import Assets
from eventsched.pages.attempt_runs import attempt_runs
from eventsched.pages.rendering import age, breakable
from eventsched.pages.site import site
from tests.databases import ROOT

MARKUP = "</script><script>alert(1)</script>&"
FOLDER = ROOT / "eventsched/pages"
PODS = {"stream": "live", "head": 9, "pods": [], "next": None}
POSITION = {
    "stream": "live", "position": 9, "time": "2026-11-25T20:00:00.500000+00:00", "begin": 0,
    "begin_time": "2026-11-25T18:00:00+00:00", "head": 9,
    "head_time": "2026-11-25T20:00:00.500000+00:00",
}  # fmt: skip
STREAMS = {"streams": [{"name": "live", "head": 9, "holder": None}]}


class GivenApi:
    """An API that answers by path."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"streams": STREAMS, "pods": PODS, "position": POSITION, **answers}
        self.asked: list[tuple[str, str, dict[bytes, bytes]]] = []
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        self.asked.append((scope["path"], scope["query_string"].decode(), headers))
        self.bodies.append((await receive())["body"])
        answer = self.answers[scope["path"].rpartition("/")[2]]
        status = answer.get("status", 200)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


class Page(NamedTuple):
    """A response."""

    status_code: int
    headers: dict[str, str]
    text: str


class Pages:
    """The pages over an API, without a server."""

    def __init__(self, api: ASGIApp, *, what_ifs: bool = True) -> None:
        self._app = site(api, what_ifs=what_ifs)

    def get(
        self,
        path: str,
        headers: dict[str, str] | None = None,
        method: str = "GET",
        body: bytes = b"",
    ) -> Page:
        """The response to a request."""
        sent: list[Message] = []
        place, _, query = path.partition("?")
        given = {"host": "testserver", **(headers or {})}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": unquote(place), "raw_path": place.encode(),
            "query_string": query.encode(), "root_path": "",
            "headers": [(name.lower().encode(), text.encode()) for name, text in given.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip

        has_body = False

        async def receive() -> Message:
            nonlocal has_body
            if has_body:
                return {"type": "http.disconnect"}
            has_body = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        async def answered() -> None:
            await self._app(scope, receive, send)

        asyncio.run(answered())
        names = {name.decode(): text.decode() for name, text in sent[0]["headers"]}
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return Page(sent[0]["status"], names, body.decode())


def client(api: GivenApi) -> Pages:
    return Pages(api)


def test_a_page_is_made_from_the_answers_of_the_api() -> None:
    api = GivenApi()
    known = {
        "Authorization": "Bearer x", "X-Eventsched-Authorization": "Bearer y",
        "X-Remote-User": "anna", "X-Remote-Group": "a",
    }  # fmt: skip
    headers = {
        **known, "Cookie": "a=b", "If-None-Match": '"x"',
        "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document",
    }  # fmt: skip
    answer = client(api).get("/pods?state=bound&show=a/b&name=", headers=headers)
    assert answer.status_code == 200
    path, query, passed_on = api.asked[0]
    assert (path, query) == ("/api/v1/pods", "state=bound")
    wanted = {name.lower().encode(): value.encode() for name, value in known.items()}
    assert passed_on == {b"host": b"testserver", **wanted}
    assert "WHERE state = &#39;bound&#39;" in answer.text
    assert "GET /api/v1/pods?state=bound<" in answer.text


def test_the_api_learns_what_a_page_of_another_site_loads() -> None:
    """It refuses that; a link from there is a page of its own."""
    api = GivenApi()
    client(api).get("/pods", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"})
    assert [asked[2][b"sec-fetch-site"] for asked in api.asked] == [b"cross-site"] * len(api.asked)


def test_the_present_of_a_page_is_a_link_to_that_page() -> None:
    text = client(GivenApi()).get("/pods?at=5").text
    assert '<a class="button" href="/pods">Live</a>' in text


@pytest.mark.parametrize("path", ["/pods", "/"])
def test_blanks_around_what_is_typed_do_not_matter(path: str) -> None:
    answers = {"now": _wrong("at"), "activity": _wrong("at")}
    asked = []
    for given in ("at=9&namespace=web&name=++", "at=+9+&namespace=%09web+&name="):
        api = GivenApi(**answers)
        client(api).get(f"{path}?{given}")
        asked.append([(where, query) for where, query, _ in api.asked])
    assert asked[0] == asked[1]
    assert dict(asked[0])["/api/v1/position"] == "at=9"


def test_a_group_is_asked_for_as_it_is() -> None:
    """It is a reason of an answer, and these may have blanks around them."""
    api = GivenApi()
    client(api).get("/pods?group=reason:no+disk+")
    assert "group=reason%3Ano%20disk%20" in api.asked[0][1].replace("+", "%20")


@pytest.mark.parametrize(
    ("time", "typed"),
    [
        ("2026-11-25T20:00:00.500000+00:00", "2026-11-25 20:00:00"),
        ("1970-01-01T00:30:00+00:00", "00:30:00"),
        ("1970-01-03T00:30:00+00:00", "2d 00:30:00"),
    ],
)
def test_the_field_of_another_time_has_the_time_shown(time: str, typed: str) -> None:
    position = {**POSITION, "time": time, "begin_time": time, "head_time": time}
    text = client(GivenApi(position=position)).get("/pods?at=5").text
    assert f'<input name="at" value="{typed}"' in text
    read = read_moment(typed, 1_800_000_000_000_000, virtual=time < "2000")
    assert read == datetime.fromisoformat(time).replace(microsecond=0).timestamp() * 1_000_000


def test_an_unchanged_page_is_not_sent_again() -> None:
    pages = client(GivenApi())
    first = pages.get("/pods")
    for given in (first.headers["etag"], f'"a", W/{first.headers["etag"]}', "*"):
        second = pages.get("/pods", headers={"If-None-Match": given})
        assert (second.status_code, second.text) == (304, "")
    assert pages.get("/pods", headers={"If-None-Match": '"a"'}).text == first.text
    assert first.headers["cache-control"] == "no-cache"
    assert first.headers["vary"] == "Authorization"


@pytest.mark.parametrize("path", ["/pods", "/nothing", "/assets/0/pages.css"])
def test_every_answer_has_the_policy(path: str) -> None:
    headers = client(GivenApi()).get(path).headers
    policy = headers["content-security-policy"].split("; ")
    assert policy[0] == "default-src 'none'"
    assert "frame-ancestors 'none'" in policy
    assert not [word for word in policy if "unsafe" in word or "http" in word or "*" in word]
    assert headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in headers


@pytest.mark.parametrize("kind", ["Job", MARKUP])
def test_data_in_a_page_cannot_end_its_element(kind: str) -> None:
    """The owner is a link if its kind has a page, and the node always."""
    pod = {
        **dict.fromkeys(("owner_name", "wait_seconds", "plugin", "reason"), MARKUP),
        "namespace": MARKUP, "name": MARKUP, "state": MARKUP, "attempts": 1, "node": MARKUP,
        "wait_seconds": None, "owner_kind": kind,
    }  # fmt: skip
    text = client(GivenApi(pods={**PODS, "pods": [pod]})).get("/pods?owner=" + MARKUP).text
    assert "alert(1)" in text
    assert "<script>alert" not in text
    data = text.partition('id="answer">')[2].partition("</script>")[0]
    assert json.loads(data)["pods"] == [pod]
    assert ('href="/workloads/' in text) == (kind == "Job")
    assert f'href="/nodes/{quote(MARKUP, safe="")}"' in text


def test_problems_have_pages() -> None:
    problem = {
        "title": "Bad Request", "status": 400, "detail": "is unknown", "where": "sort",
        "remedy": "take another one",
    }  # fmt: skip
    answer = client(GivenApi(pods=problem)).get("/pods?sort=x")
    assert answer.status_code == 400
    assert "<strong>sort:</strong> is unknown; take another one." in answer.text
    assert 'data-live="false"' in answer.text  # asking again does not help
    busy = {"title": "Service Unavailable", "status": 503, "detail": "is busy"}
    answer = client(GivenApi(pods=busy)).get("/pods")
    assert answer.status_code == 503
    assert "is busy" in answer.text
    assert 'data-live="true"' in answer.text
    pages = client(GivenApi())
    missing = pages.get("/nothing")
    assert missing.status_code == 404
    assert 'data-live="false"' in missing.text
    assert pages.get("/pods?name=" + 9000 * "x").status_code == 414
    assert pages.get("/pods", method="POST").status_code == 405


def _wrong(where: str) -> dict[str, Any]:
    return {"title": "Bad Request", "status": 400, "detail": f"is {MARKUP}", "where": where,
            "remedy": "say 4"}  # fmt: skip


@pytest.mark.parametrize(
    ("page", "api", "where", "field", "title"),
    [
        ("/pods", "pods", "from", '<input name="from" value="x&amp;"', "Last attempt from"),
        ("/pods", "pods", "state", '<select name="state"', "State"),
        ("/pods", "pods", "name_contains", '<input name="name" value="x&amp;"', "Name contains"),
        ("/pods?by=owner", "groups", "until", '<input name="until"', "Last attempt before"),
        ("/pods", "pods", "at", '<input name="at"', "Go to"),
        ("/findings/evictions", "evictions", "until", '<input name="until"', "Until"),
        ("/findings/refusals", "refusals", "from", '<input name="from"', "From position or time"),
    ],
)
def test_a_wrong_filter_is_marked_in_the_form_that_keeps_the_others(
    page: str, api: str, where: str, field: str, title: str
) -> None:
    mark = "&" if "?" in page else "?"
    asked = f"{page}{mark}namespace=other&{where.removesuffix('_contains')}="
    asked += "5" if where == "at" else "x%26"  # 5: a position, which does not move
    answer = client(GivenApi(**{api: _wrong(where)})).get(asked)
    assert answer.status_code == 400
    marked = [each for each in answer.text.split("<") if 'aria-invalid="true"' in each]
    assert len(marked) == 1
    assert f"<{marked[0]}".startswith(field)
    assert 'aria-describedby="problem-text"' in marked[0]
    assert answer.text.count('id="problem-text"') == 1
    assert f"<strong>{title}:</strong> is &lt;/script" in answer.text
    assert "; say 4." in answer.text
    assert 'name="namespace" value="other"' in answer.text
    if where == "state":
        assert "<option selected>x&amp;</option>" in answer.text


def test_a_wrong_time_is_marked_where_it_is_typed() -> None:
    """Also on a page without a form with filters."""
    answers = {"now": _wrong("at"), "activity": _wrong("at")}
    answer = client(GivenApi(**answers)).get("/?at=5")
    assert answer.status_code == 400
    assert 'size="18" aria-invalid="true" aria-describedby="problem-text"' in answer.text
    strip = answer.text.partition('<section class="moment')[2].partition("</section>")[0]
    assert "<strong>Go to:</strong> is &lt;/script" in strip
    assert "; say 4." in strip
    assert answer.text.count('id="problem-text"') == 1
    assert "Bad Request" not in answer.text


def test_a_wrong_value_of_an_address_can_be_corrected_on_the_page() -> None:
    """Also one that the page has no field for; what else is asked for stays."""
    answer = client(GivenApi(anomalies=_wrong("limit"))).get("/findings?stream=live&limit=x%26")
    assert answer.status_code == 400
    assert "Bad Request" not in answer.text
    [field] = [each for each in answer.text.split("<") if 'aria-invalid="true"' in each]
    assert field.startswith('input name="limit" value="x&amp;"')
    assert '<input type="hidden" name="stream" value="live">' in answer.text
    assert "<strong>limit:</strong> is &lt;/script" in answer.text
    assert '<a class="button" href="?stream=live">Without it</a>' in answer.text


def test_another_stream_is_asked_for_without_the_form() -> None:
    streams = {"streams": [{"name": name, "head": 9, "holder": None} for name in ("a", "b")]}
    answer = client(GivenApi(pods=_wrong("stream"), streams=streams)).get("/pods?namespace=x")
    assert answer.status_code == 400
    assert "Which stream?" in answer.text
    assert 'id="filters"' not in answer.text


def test_without_a_token_there_is_a_frame_without_data() -> None:
    refused = {"title": "Unauthorized", "status": 401, "detail": "a bearer token is needed"}
    answer = client(GivenApi(pods=refused, streams=refused)).get("/pods")
    assert answer.status_code == 200
    assert answer.headers["x-needs-token"] == "1"
    assert 'data-problem="401"' in answer.text
    assert "live" not in answer.text.partition("<main")[2].replace("aria-live", "")


def test_files_are_kept_by_browsers() -> None:
    pages, assets = client(GivenApi()), Assets()
    style = pages.get(assets.url("pages.css"))
    assert style.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    tag = {"If-None-Match": style.headers["etag"]}
    assert pages.get(assets.url("pages.css"), headers=tag).status_code == 304
    for name in ("missing.css", "..%2F__init__.py", "%2e%2e%2fsite.py"):
        assert pages.get(f"{assets.folder}/{name}").status_code == 404


def test_the_pages_are_small() -> None:
    """As the wheel has them before it compresses them, without the code that fills them in."""
    files = [path for path in FOLDER.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    folders = {path.parent.name for path in files}
    assert folders == {"pages", "screen_questions", "static", "templates"}
    shown = [path.stat().st_size for path in files if path.parent.name in ("static", "templates")]
    assert sum(shown) < 400 * 1024


def test_all_files_are_shipped_and_served() -> None:
    static = FOLDER / "static"
    assets = Assets()
    assert [path.name for path in static.iterdir() if assets.find(path.name) is None] == []
    shipped = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert '"eventsched.pages": ["static/*", "templates/*.html"]' in shipped
    assert {Path(path).suffix for path in (FOLDER / "templates").iterdir()} == {".html"}


def test_equal_attempts_in_a_row_are_one_run() -> None:
    """With a result in between they are two."""
    results = ["full", "full", "taint", "full", "full", "full"]
    attempts = [
        {"attempt": number, "outcome": "unschedulable", "node": None, "plugin": None,
         "message": result, "refusals": [number]}
        for number, result in enumerate(results, start=1)
    ]  # fmt: skip
    runs = attempt_runs(attempts)
    spans = [(run.first["attempt"], run.last["attempt"], len(run.attempts)) for run in runs]
    assert spans == [(1, 2, 2), (3, 3, 1), (4, 6, 3)]
    assert attempt_runs([]) == []


@pytest.mark.parametrize(
    ("sort", "head", "arrow", "other"),
    [
        ("waiting", "Waits", "↓", "-waiting"), ("-waiting", "Waits", "↑", "waiting"),
        ("-position", "Pod, by arrival", "↓", "position"),
        ("position", "Pod, by arrival", "↑", "-position"),
        ("-since", "State, by begin", "↓", "since"),
        ("-attempts", "Attempts", "↓", "attempts"), ("attempts", "Attempts", "↑", "-attempts"),
        ("node", "Node", "↑", "-node"), ("-owner", "Owner", "↓", "owner"),
    ],
)  # fmt: skip
def test_the_arrow_of_a_column_is_the_order_of_what_it_names(
    sort: str, head: str, arrow: str, other: str
) -> None:
    """The longest wait began first."""
    text = client(GivenApi()).get(f"/pods?sort={sort}").text
    [order] = re.findall('<th role="columnheader" scope="col"[^>]* aria-sort="(.*?)">', text)
    assert order == ("descending" if arrow == "↓" else "ascending")
    [place] = re.findall('aria-sort="[a-z]*">(.*?)</th>', text)
    assert f">{head} <span" in place
    assert f">{arrow}</span>" in place
    assert f"sort={other}" in place
    if head != "Waits":  # at first the longest waits are asked for
        assert "sort=waiting" in text
    if head not in ("Node", "Owner"):  # at first names are in the order of the alphabet
        assert "sort=node" in text
        assert "sort=owner" in text


@pytest.mark.parametrize("by", ["", "&by=owner"])
def test_a_filter_of_pods_without_a_match_offers_names(by: str) -> None:
    unmatched = {"filter": "owner", "value": MARKUP, "near": ["sts/db"], "others": []}
    given = {**PODS, "unmatched": [unmatched]}
    groups = {**given, "groups": [], "pods": 0, "count": 0}
    text = client(GivenApi(pods=given, groups=groups)).get(f"/pods?owner=sts/dbx{by}").text
    assert "No pods match owner sts/dbx." in text
    assert "<script>alert" not in text
    assert "no pod here has it. Did you mean <a href=" in text
    assert 'owner=sts%2Fdb">sts/db</a>?' in text.replace(by.replace("&", "&amp;"), "")


def test_a_part_of_a_name_without_a_match_is_offered_in_its_field() -> None:
    unmatched = {"filter": "name_contains", "value": "wbe", "near": ["web"], "others": []}
    text = client(GivenApi(pods={**PODS, "unmatched": [unmatched]})).get("/pods?name=wbe").text
    assert "<strong>Name contains wbe:</strong> no pod here has it." in text
    assert '<a href="?name=web">web</a>?' in text


@pytest.mark.parametrize(
    ("begin", "name", "is_said"),
    [
        ("1970-01-01T00:00:00+00:00", "from", True), ("1970-01-01T00:00:00+00:00", "until", True),
        ("2026-11-25T18:00:00+00:00", "from", False),
    ],
)  # fmt: skip
def test_a_length_says_what_it_counts_from_in_a_simulation(
    begin: str, name: str, is_said: bool
) -> None:
    api = GivenApi(position={**POSITION, "begin_time": begin})
    text = client(api).get(f"/pods?{name}=30m").text
    assert ("30m after the start of the simulation" in text) == is_said
    assert (f'<a href="?{name}=30m+ago">' in text) == is_said
    assert ("4m10s after the start" in client(api).get(f"/pods?{name}=4m10s").text) == is_said
    assert "after the start" not in client(api).get(f"/pods?{name}=30m+ago").text


def test_links_to_a_story_lead_to_the_page_of_the_pod() -> None:
    answer = client(GivenApi()).get("/pods/a%20b/c/story?stream=x&uid=1")
    assert (answer.status_code, answer.text) == (308, "")
    assert answer.headers["location"] == "/pods/a%20b/c?stream=x&uid=1"
    assert client(GivenApi()).get("/pods/%3Cb%3E/c/story").headers["location"] == "/pods/%3Cb%3E/c"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"), (0, "0 s"), (0.0001, "<0.001 s"), (2.3456, "2.35 s"), (59.9, "59 s"),
        (250, "4m 10s"), (11_040, "3h 04m"), (1_062_000, "12d 07h"),
    ],
)  # fmt: skip
def test_lengths_of_time(seconds: float | None, text: str) -> None:
    assert age(seconds) == text


def test_lines_end_between_the_words_of_a_name() -> None:
    assert breakable("NodeAffinity: a<B>") == "Node<wbr>Affinity: a&lt;B&gt;"
    assert breakable("CSI") == "CSI"


def test_a_time_that_moves_is_settled_first() -> None:
    """Nothing else is asked of the API; what is wrong, is fixed, or has no past is shown as it
    is."""
    api = GivenApi()
    page = Pages(api).get("/pods?stream=live&at=10m+ago&sort=since")
    assert (page.status_code, page.headers["location"]) == (307, "?stream=live&at=9&sort=since")
    assert page.headers["cache-control"] == "no-store"
    assert [(path, query) for path, query, _ in api.asked] == [
        ("/api/v1/position", "stream=live&at=10m+ago")
    ]
    for query in ("at=4", "at=2026-11-21", ""):
        assert Pages(GivenApi()).get(f"/pods?{query}").status_code == 200
    wrong = GivenApi(position={"status": 400, "title": "Bad Request", "detail": "no time"})
    assert Pages(wrong).get("/pods?at=10x").status_code == 200


@pytest.mark.parametrize(
    ("path", "remedy", "links"),
    [
        ("/pods/prod/trian", "did you mean prod/train or dev/trains?",
         {"/pods/prod/train": "prod/train", "/pods/dev/trains": "dev/trains"}),
        ("/nodes/web-3", "did you mean web-03 or web-13?",
         {"/nodes/web-03": "web-03", "/nodes/web-13": "web-13"}),
        ("/decisions/3", "its pod is prod/a, whose page has its decisions",
         {"/pods/prod/a": "prod/a"}),
        ("/pods/prod/trian", "did you mean <b>x?",
         {"/pods/prod/%3Cb%3Ex": "&lt;b&gt;x"}),
    ],
)  # fmt: skip
def test_offered_names_lead_to_their_pages(path: str, remedy: str, links: dict[str, str]) -> None:
    """On the page of what there is not."""
    problem = {"title": "Not Found", "status": 404, "detail": "is not there", "remedy": remedy}
    names = ("timeline", "state", path.rpartition("/")[2], "explain")
    text = client(GivenApi(**dict.fromkeys(names, problem))).get(path).text
    for address, name in links.items():
        assert f'<a href="{address}">{name}</a>' in text


@pytest.mark.parametrize(
    ("path", "tab"),
    [("/pods/a/b", "Pods"), ("/decisions/3", "Pods"), ("/workloads/a/deploy/b", "Pods"),
     ("/nodes/n", "Now")],
)  # fmt: skip
def test_the_tab_that_a_page_belongs_to(path: str, tab: str) -> None:
    problem = {"title": "Not Found", "status": 404, "detail": "is not there"}
    names = ("timeline", "state", "3", "explain")
    text = client(GivenApi(**dict.fromkeys(names, problem))).get(path).text
    assert re.findall(r'aria-current="true">(\w+)</a></li>', text) == [tab]
