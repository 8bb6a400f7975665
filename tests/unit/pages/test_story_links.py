"""Links in the lines of a story."""

from typing import Any

from eventsched.pages.story_links import linked


def link(path: str, **values: Any) -> str:
    return path + "".join(f"?{name}={value}" for name, value in values.items())


def test_pods_and_positions_are_links() -> None:
    """The longest name that fits, and nothing that only looks like a name."""
    text = "has to leave n0 for prod/web-1 and prod/web (position 12), not for other/web-2."
    found = linked(text, ["prod/web", "prod/web-1"], link)
    assert found == (
        'has to leave n0 for <a href="/pods/prod/web-1">prod/web-1</a> and '
        '<a href="/pods/prod/web">prod/web</a> (position <a href="/?at=13">12</a>), '
        "not for other/web-2."
    )
    assert linked("prod/web-10 x/prod/web", ["prod/web"], link) == "prod/web-10 x/prod/web"
    assert linked("position 12", [], link) == "position 12"


def test_markup_stays_text() -> None:
    name = '<b>/"x&'
    found = linked(f"for {name}; <i>", [name], link)
    assert found == ('for <a href="/pods/%3Cb%3E/%22x%26">&lt;b&gt;/&#34;x&amp;</a>; &lt;i&gt;')
