"""The pages over an API whose answers are given."""

import json
import re
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from eventsched.output.time_format import read_moment
from eventsched.pages.assets import Assets
from eventsched.pages.attempt_runs import attempt_runs
from eventsched.pages.rendering import age, breakable
from tests.databases import ROOT
from tests.unit.pages.given_api import MARKUP, PODS, POSITION, GivenApi, Pages, client, refusal

FOLDER = ROOT / "eventsched/pages"


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
    answers = {"now": refusal("at"), "activity": refusal("at")}
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
    ("path", "tab"),
    [("/pods/a/b", "Pods"), ("/decisions/3", "Pods"), ("/workloads/a/deploy/b", "Pods"),
     ("/nodes/n", "Now")],
)  # fmt: skip
def test_the_tab_that_a_page_belongs_to(path: str, tab: str) -> None:
    problem = {"title": "Not Found", "status": 404, "detail": "is not there"}
    names = ("timeline", "state", "3", "explain")
    text = client(GivenApi(**dict.fromkeys(names, problem))).get(path).text
    assert re.findall(r'aria-current="true">(\w+)</a></li>', text) == [tab]
