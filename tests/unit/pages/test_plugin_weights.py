"""The weights of plugins as the page What-if shows them."""

from eventsched.pages.configuration_changes import weights

_PROFILES = {
    "one": {
        "filter": ["Fit", "Ports"],
        "preScore": ["Fit"],
        "score": ["Fit=1", "Spread=2", "Image=4"],
        "reserve": ["Spread"],
    },
    "two": {"score": ["Fit=1", "Spread=3"], "bind": ["Binder"]},
}


def test_a_weight_is_named_by_profile_unless_all_have_it() -> None:
    assert weights(_PROFILES) == {
        "Fit": "1",
        "Ports": "does not score",
        "Spread": "2 in one, 3 in two",
        "Image": "4 in one",
        "Binder": "does not score",
    }
    assert weights({}) == {}
