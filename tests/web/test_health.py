"""Health as text: upstream's form, with reasons."""

import pytest

from eventsched.web import health
from eventsched.web.health import HealthAnswer
from tests.web.facts import Facts

WELL = {"ping": "", "database": ""}
UNREACHABLE = {"ping": "", "database": "unreachable for 3 s", "watches": "Pod: not listed yet"}


@pytest.mark.parametrize(
    ("checks", "verbose", "exclude", "expected"),
    [
        (WELL, False, [], HealthAnswer(200, "ok")),
        (WELL, True, [], HealthAnswer(200, "[+]ping ok\n[+]database ok\nreadyz check passed\n")),
        (
            UNREACHABLE,
            False,
            [],
            HealthAnswer(
                500,
                "[+]ping ok\n[-]database failed: unreachable for 3 s\n"
                "[-]watches failed: Pod: not listed yet\nreadyz check failed\n",
            ),
        ),
        (UNREACHABLE, False, ["database", "watches"], HealthAnswer(200, "ok")),
        (
            WELL,
            True,
            ["ping", "nothing"],
            HealthAnswer(
                200,
                "[+]ping excluded: ok\n[+]database ok\nwarn: some health checks cannot be "
                'excluded: no matches for "nothing"\nreadyz check passed\n',
            ),
        ),
    ],
)
def test_all_checks_together(
    checks: dict[str, str], verbose: bool, exclude: list[str], expected: HealthAnswer
) -> None:
    assert health.answer("readyz", checks, verbose=verbose, exclude=exclude) == expected


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("ping", HealthAnswer(200, "ok")),
        ("database", HealthAnswer(500, "internal server error: unreachable for 3 s\n")),
        ("other", HealthAnswer(404, "the checks are ping, database, watches\n")),
    ],
)
def test_a_single_check(check: str, expected: HealthAnswer) -> None:
    assert health.single(UNREACHABLE, check) == expected


def test_reasons_contain_no_secret() -> None:
    checks = {"database": "cannot reach postgresql://eventsched:hunter2@db/events"}
    assert "hunter2" not in health.answer("readyz", checks, verbose=False, exclude=[]).text
    assert "hunter2" not in health.single(checks, "database").text


def test_readiness_and_liveness_have_their_own_checks() -> None:
    facts = Facts(liveness={"loop": ""}, readiness={"database": "unreachable"})
    checks = {name: read() for name, read in health.checks_of(facts).items()}
    assert checks == {
        "healthz": {"ping": "", "loop": ""},
        "livez": {"ping": "", "loop": ""},
        "readyz": {"ping": "", "database": "unreachable"},
    }
