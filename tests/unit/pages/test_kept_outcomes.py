"""Outcomes of forms that have an address, and pages with one."""

import json
import random
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest

from eventsched.pages.api_call import ApiAnswer
from eventsched.pages.kept_outcomes import FormOutcome, KeptOutcomes
from eventsched.pages.page_question import PageQuestion
from tests.unit.pages.given_api import GivenApi, Page, Pages
from tests.unit.pages.test_form_posts import CONFIGURATION, EVENTS, FORM, RESULT, TRIAL, WRONG


def outcome(text: str, body: bytes = b"") -> FormOutcome:
    question = PageQuestion("/try", "", "eventsched try", text.encode(), "pods.yaml")
    return FormOutcome(question, {"pods": text}, ApiAnswer(200, body))


def test_an_outcome_is_found_by_its_name_and_its_stream() -> None:
    kept = KeptOutcomes()
    name = kept.keep("live", outcome("a"))
    assert name is not None
    assert kept.find("live", name) == outcome("a")
    assert kept.find("other", name) is None
    assert kept.keep("live", outcome("a")) == name
    assert kept.keep("live", outcome("b")) != name


def test_the_oldest_is_dropped_and_one_that_is_too_large_is_not_kept() -> None:
    kept = KeptOutcomes(most_bytes=1_200)
    names = [kept.keep("live", outcome(text)) for text in "abcdefghijklmnop"]
    again = kept.keep("live", outcome("c"))  # as if it were new
    assert again == names[2]
    more = [kept.keep("live", outcome(f"{text}2")) for text in "abcdefgh"]
    found = [name for name in (*names, *more) if name and kept.find("live", name)]
    assert names[0] not in found
    assert again in found
    assert more[-1] in found
    incompressible = random.Random(1).randbytes(100_000)
    assert kept.keep("live", outcome("huge", incompressible)) is None
    assert [name for name in found if kept.find("live", name)] == found
    assert KeptOutcomes(most_bytes=10).keep("live", outcome("a")) is None


def _api(**answers: Any) -> GivenApi:
    return GivenApi(**{"configuration": CONFIGURATION, "what-if": RESULT, "try": TRIAL, **answers})


def _sent(pages: Pages, path: str = "/what-if?stream=live", **fields: str) -> Page:
    return pages.get(path, FORM, "POST", urlencode(fields).encode())


def test_a_form_leads_to_an_address_that_has_result_and_form() -> None:
    """Also later, and after others; the range is in the address for when the result is lost."""
    pages = Pages(_api())
    typed = {"configuration": "kind: mine\n", "from": "70", "until": "80", "nodes": "-n1"}
    sent = _sent(pages, ask="what-if", sort="waited", **typed)
    assert (sent.status_code, sent.headers["cache-control"]) == (303, "no-store")
    place, _, part = sent.headers["location"].partition("#")
    assert part == "outcome"
    query = parse_qs(place[1:])
    assert {name: query[name] for name in ("stream", "from", "until", "nodes")} == {
        "stream": ["live"], "from": ["70"], "until": ["80"], "nodes": ["-n1"],
    }  # fmt: skip
    _sent(pages, ask="try", pods="kind: Pod")
    page = pages.get(f"/what-if{place}")
    assert page.status_code == 200
    assert "1 pod would be on another node" in page.text
    assert "kind: mine\n</textarea>" in page.text
    assert '<option value="waited" selected>' in page.text
    assert "--from=70 --until=80" in page.text
    same = pages.get(f"/what-if{place}", {"If-None-Match": page.headers["etag"]})
    assert same.status_code == 304


def test_new_pods_have_an_address_that_keeps_the_time_and_the_range() -> None:
    pages = Pages(_api())
    sent = _sent(pages, "/what-if?stream=live&at=5&until=9", ask="try", pods="kind: Mine")
    place = sent.headers["location"].partition("#")[0]
    assert place.startswith("?at=5&until=9&stream=live&result=")
    text = pages.get(f"/what-if{place}").text
    assert "1 of 2 would be placed." in text
    assert "kind: Mine</textarea>" in text


def test_a_result_that_is_lost_is_said_beside_the_form() -> None:
    page = Pages(_api()).get("/what-if?stream=live&from=70&result=0123")
    assert page.status_code == 404
    assert "This result is no longer kept" in page.text
    assert 'name="from" value="70"' in page.text


def test_who_may_not_ask_does_not_see_a_result() -> None:
    api = _api()
    pages = Pages(api)
    place = _sent(pages, ask="what-if", configuration="kind: mine").headers["location"]
    api.answers["configuration"] = {"status": 403, "title": "Forbidden", "detail": "not yours"}
    page = pages.get(f"/what-if{place.partition('#')[0]}")
    assert page.status_code == 403
    assert "would be on another node" not in page.text
    assert "kind: mine" not in page.text


def test_another_stream_does_not_show_it() -> None:
    api = _api()
    pages = Pages(api)
    place = _sent(pages, ask="what-if", configuration="").headers["location"].partition("#")[0]
    api.answers["configuration"] = {**CONFIGURATION, "stream": "other"}
    assert pages.get(f"/what-if{place}").status_code == 404


def test_only_results_have_addresses() -> None:
    """A problem is answered at once; fields that are too long for an address are left out."""
    assert _sent(Pages(_api(**{"what-if": WRONG})), ask="what-if").status_code == 400
    long = _sent(Pages(_api()), ask="what-if", configuration="", nodes="-n|" * 9_000)
    assert parse_qs(long.headers["location"].partition("#")[0][1:]).keys() == {"stream", "result"}


@pytest.mark.parametrize("fields", [{"ask": "what-if", "configuration": ""}, {"ask": "try"}])
def test_a_script_learns_the_address_from_the_page(fields: dict[str, str]) -> None:
    pages = Pages(_api())
    text = pages.get("/what-if", EVENTS, "POST", urlencode(fields).encode()).text
    address = text.partition('data-address="')[2].partition('"')[0].replace("&amp;", "&")
    assert address.startswith("?stream=live&result=")
    assert pages.get(f"/what-if{address}").status_code == 200
    assert 'data-address=""' in pages.get("/what-if").text
    wrong = Pages(_api(**{"what-if": json.loads(json.dumps(WRONG)), "try": WRONG}))
    assert (
        'data-address=""' in wrong.get("/what-if", EVENTS, "POST", urlencode(fields).encode()).text
    )
