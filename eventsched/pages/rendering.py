"""Makes the HTML of pages from templates. All values are escaped."""

import re
from datetime import datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from eventsched.domain.units import is_virtual
from eventsched.domain.workload_kinds import WORKLOADS
from eventsched.pages.anomaly_groups import anomaly_groups
from eventsched.pages.api_call import segment
from eventsched.pages.attempt_runs import attempt_runs
from eventsched.pages.configuration_changes import weights
from eventsched.pages.screen_questions.what_if_question import difference_page
from eventsched.pages.story_links import linked, linked_step, nodes_of, offered

_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")
_LENGTH = re.compile(r"([0-9]*\.?[0-9]+[smhd])+")
_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60


def environment(*, what_ifs: bool = True) -> Environment:
    """The templates, with the filters that they use. ``what_ifs``: whether the server answers
    these; without them no page leads to one."""
    env = Environment(
        loader=PackageLoader("eventsched.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(
        age=age, count=count, moment=moment, segment=segment, decimal=decimal,
        breakable=breakable, attempt_runs=attempt_runs, anomaly_groups=anomaly_groups,
        linked=linked, linked_step=linked_step, weights=weights,
        nodes_of=nodes_of, offered=offered, typed_time=typed_time, difference_page=difference_page,
        is_length=is_length, amount=amount,
    )  # fmt: skip
    env.globals["what_ifs"] = what_ifs
    env.globals["workload_kinds"] = WORKLOADS
    return env


def age(seconds: float | None) -> str:
    """A length of time to two units: ``0.4 s``, ``12 s``, ``4m 10s``, ``3h 04m``, ``12d 07h``; a
    dash for None."""
    if seconds is None:
        return "–"
    if seconds < 10:
        return f"{seconds:.3g} s" if seconds >= 0.001 or not seconds else "<0.001 s"
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE:02}m"
    return f"{whole // _DAY}d {whole % _DAY // _HOUR:02}h"


def count(number: int | None) -> str:
    """A number with thin spaces between thousands; a dash for None."""
    return "–" if number is None else f"{number:,}".replace(",", "\u202f")


def decimal(number: float | None) -> str:
    """A number with about three digits; a dash for None."""
    if number is None:
        return "–"
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def amount(number: int, resource: str) -> str:
    """An amount of a resource as the API gives it (millicores, bytes or a count), for people:
    ``1500m``, ``3.5 GiB``, ``4``."""
    if resource == "cpu":
        return f"{number}m" if number % 1000 else str(number // 1000)
    if resource not in ("memory", "ephemeral-storage") and not resource.startswith("hugepages-"):
        return str(number)
    unit, name = (1 << 30, "GiB") if abs(number) >= 1 << 30 else (1 << 20, "MiB")
    return f"{round(number / unit, 1):g} {name}"


def moment(text: str | None) -> Markup:
    """A time of the API as an element ``time``: date and time of day, or for a simulation days and
    time since its beginning."""
    if text is None:
        return Markup("–")
    at = datetime.fromisoformat(text)
    clock = f"{at:%H:%M:%S}"
    if is_virtual(round(at.timestamp() * 1_000_000)):
        days = int(at.timestamp() // _DAY)
        shown = f"day {days}, {clock}" if days else clock
    else:
        shown = f"{at:%Y-%m-%d} {clock}"
    return Markup('<time datetime="{}">{}</time>').format(text, shown)


def typed_time(text: str) -> str:
    """A time of the API as the field "Go to" takes it, to the second."""
    at = datetime.fromisoformat(text)
    if not is_virtual(round(at.timestamp() * 1_000_000)):
        return f"{at:%Y-%m-%d %H:%M:%S}"
    days = int(at.timestamp() // _DAY)
    return f"{days}d {at:%H:%M:%S}" if days else f"{at:%H:%M:%S}"


def is_length(text: str) -> bool:
    """Whether a text is a length of time alone, such as ``10m`` or ``4m10s``: in a simulation one
    after its beginning."""
    return _LENGTH.fullmatch(text) is not None


def breakable(text: str) -> Markup:
    """A text in which a line may end between the words of a name such as NodeAffinity."""
    return Markup("<wbr>").join(_HUMP.split(text))


def embedded(body: bytes) -> Markup:
    """JSON for an element ``script`` with data: it cannot end the element."""
    text = body.decode().replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(text)


def problem_of(status: int, document: Any) -> dict[str, Any]:
    """A problem of the API, with all of its fields."""
    empty = {"title": "", "detail": "", "where": "", "remedy": ""}
    return {**empty, **document, "status": status}
