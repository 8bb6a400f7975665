"""The options of a shadow, over its settings."""

import argparse
from typing import Any

import pytest

from eventsched.cli.main import every_command
from eventsched.cli.run import SHADOW_STREAM, with_shadow
from eventsched.domain.errors import InputError
from eventsched.process.sections.shadow_settings import ShadowSettings
from eventsched.process.settings import Settings

OF_FILE = ShadowSettings(enabled=True, schedulers=("batch",))


def options(*words: str) -> argparse.Namespace:
    return every_command().parse_args(["run", *words])


@pytest.mark.parametrize(
    ("words", "settings", "expected", "stream"),
    [
        ((), {}, ShadowSettings(), "scheduler"),
        (("--shadow",), {}, ShadowSettings(enabled=True), SHADOW_STREAM),
        (("--shadow", "--follow", "a", "--follow", "b"), {},
         ShadowSettings(enabled=True, schedulers=("a", "b")), SHADOW_STREAM),
        ((), {"shadow": OF_FILE}, OF_FILE, SHADOW_STREAM),
        (("--follow", "a"), {"shadow": OF_FILE},
         ShadowSettings(enabled=True, schedulers=("a",)), SHADOW_STREAM),
        (("--shadow",), {"stream": "mine"}, ShadowSettings(enabled=True), "mine"),
        (("--shadow", "--stream", "scheduler"), {}, ShadowSettings(enabled=True), "scheduler"),
    ],
)  # fmt: skip
def test_options_override_the_file(
    words: tuple[str, ...], settings: dict[str, Any], expected: ShadowSettings, stream: str
) -> None:
    found = with_shadow(options(*words), Settings(**settings))
    assert (found.shadow, found.stream) == (expected, stream)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--follow", "a"), "--follow: is for a shadow; add --shadow"),
        (("--shadow", "--follow", "a", "--follow", "a"), "a is there twice; leave one"),
        (("--shadow", "--follow", "two words"), "cannot be a schedulerName"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputError) as problem:
        with_shadow(options(*words), Settings())
    assert said in str(problem.value)
    assert str(problem.value).startswith("--follow")
