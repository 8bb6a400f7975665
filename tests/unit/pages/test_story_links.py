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


def test_a_command_leads_to_the_page_that_answers_it() -> None:
    """Also one that names no node, and with the names of pods in it; any command can be copied."""
    copy = '<button type="button" class="copy" data-copy="{0}" aria-label="Copy: {0}">Copy</button>'
    command = "eventsched explain prod/web --why-not n0"
    found = linked(f"try (`{command}` says) prod/web", ["prod/web"], link, {"attempt": 2})
    assert found == (
        'try (<a href="/pods/prod/web?attempt=2?why-not=n0#why-not">'
        f"<code>{command}</code></a>{copy.format(command)} says) "
        '<a href="/pods/prod/web">prod/web</a>'
    )
    command = "eventsched explain prod/web --why-not NODE"
    found = linked(f"run `{command}`", [], link)
    assert found.startswith('run <a href="/pods/prod/web?why-not=None#why-not">')
    command = "eventsched sticky forget"
    assert linked(f"`{command}`", [], link) == f"<code>{command}</code>{copy.format(command)}"
    assert "<i>" not in linked('`eventsched explain a/"<i> --why-not <i>`', [], link)
