"""``/healthz``, ``/livez``, ``/readyz``: checks as text in upstream's format.

The format is that of apiserver/pkg/server/healthz/healthz.go. Upstream writes "reason withheld" for
a failed check. Here the reason is shown, because reasons are written to be public.
"""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

from eventsched.process_log.masking import masked
from eventsched.web.status import ProcessStatus

Checks = Mapping[str, str]


class HealthAnswer(NamedTuple):
    """An HTTP status and its text."""

    status: int
    text: str


def checks_of(status: ProcessStatus) -> dict[str, Callable[[], Checks]]:
    """Path → its checks. The first is ``ping``, which passes whenever there is an answer."""

    def live() -> Checks:
        return {"ping": "", **status.liveness}

    def ready() -> Checks:
        return {"ping": "", **status.readiness}

    return {"healthz": live, "livez": live, "readyz": ready}


def answer(
    name: str,
    checks: Checks,
    *,
    verbose: bool,
    exclude: Sequence[str],
    remarks: Mapping[str, str] | None = None,
) -> HealthAnswer:
    """All checks together: 200 and ``ok`` (with ``verbose`` a line for each check), or 500 and the
    lines. ``exclude`` names checks that count as passed. ``remarks`` are added to the lines of
    checks that pass."""
    remarks = remarks or {}
    lines, failed = [], False
    for check, problem in checks.items():
        if check in exclude:
            lines.append(f"[+]{check} excluded: ok")
        elif problem:
            lines.append(f"[-]{check} failed: {masked(problem)}")
            failed = True
        else:
            remark = remarks.get(check, "")
            lines.append(f"[+]{check} ok: {masked(remark)}" if remark else f"[+]{check} ok")
    unknown = sorted(set(exclude) - set(checks))
    if unknown:
        names = ",".join(f'"{check}"' for check in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    if failed:
        text = "\n".join([*lines, f"{name} check failed", ""])
        return HealthAnswer(HTTPStatus.INTERNAL_SERVER_ERROR, text)
    if not verbose:
        return HealthAnswer(HTTPStatus.OK, "ok")
    return HealthAnswer(HTTPStatus.OK, "\n".join([*lines, f"{name} check passed", ""]))


def single(checks: Checks, check: str) -> HealthAnswer:
    """One check; 404 if there is none of that name."""
    if check not in checks:
        return HealthAnswer(HTTPStatus.NOT_FOUND, f"the checks are {', '.join(checks)}\n")
    if checks[check]:
        problem = f"internal server error: {masked(checks[check])}\n"
        return HealthAnswer(HTTPStatus.INTERNAL_SERVER_ERROR, problem)
    return HealthAnswer(HTTPStatus.OK, "ok")
