"""Pages for input that is wrong or matches nothing: what is wrong, and where to correct it."""

import pytest

from tests.unit.pages.given_api import MARKUP, PODS, POSITION, GivenApi, client, refusal


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
    answer = client(GivenApi(**{api: refusal(where)})).get(asked)
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
    answers = {"now": refusal("at"), "activity": refusal("at")}
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
    answer = client(GivenApi(anomalies=refusal("limit"))).get("/findings?stream=live&limit=x%26")
    assert answer.status_code == 400
    assert "Bad Request" not in answer.text
    [field] = [each for each in answer.text.split("<") if 'aria-invalid="true"' in each]
    assert field.startswith('input name="limit" value="x&amp;"')
    assert '<input type="hidden" name="stream" value="live">' in answer.text
    assert "<strong>limit:</strong> is &lt;/script" in answer.text
    assert '<a class="button" href="?stream=live">Without it</a>' in answer.text


def test_another_stream_is_asked_for_without_the_form() -> None:
    streams = {"streams": [{"name": name, "head": 9, "holder": None} for name in ("a", "b")]}
    answer = client(GivenApi(pods=refusal("stream"), streams=streams)).get("/pods?namespace=x")
    assert answer.status_code == 400
    assert "Which stream?" in answer.text
    assert 'id="filters"' not in answer.text


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
    ("path", "given", "title"),
    [
        ("/pods", {}, "API, SQL, CLI"),
        ("/pods?by=reason", {"groups": refusal("at")}, "API"),
        ("/pods?at=5", {}, "API"),
        ("/what-if", {"configuration": refusal("at")}, "API"),
        ("/decisions/7", {"7": refusal("at")}, "API, SQL"),
        ("/nodes/n1?at=5", {"state": refusal("at")}, "API, CLI"),
        ("/pods/prod/a", {"timeline": refusal("at"), "explain": refusal("at")}, "API, SQL, CLI"),
        ("/pods/prod/a?at=5", {"timeline": refusal("at"), "explain": refusal("at")}, "API"),
    ],
)
def test_the_title_names_only_what_answers_elsewhere(
    path: str, given: dict[str, object], title: str
) -> None:
    text = client(GivenApi(**given)).get(path).text
    _, _, line = text.partition("<summary>The same answer elsewhere: ")
    assert line.startswith(f"{title}</summary>")
    _, _, part = text.partition('id="elsewhere"')
    listed = [word for word in ("API", "SQL", "CLI") if f"<dt>{word}</dt>" in part]
    assert ", ".join(listed) == title
