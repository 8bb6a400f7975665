"""What ``explain --why-not`` prints."""

from typing import Any

import msgspec

from eventsched.history.why_not.changes import AnyChange
from eventsched.history.why_not.hypothesis import Landing
from eventsched.history.why_not.search import Remedy
from eventsched.history.why_not.shortfall import Shortfall
from eventsched.history.why_not.why_not_answer import WhyNot
from eventsched.output.terminal.colours import Style
from eventsched.output.terminal.display import PLAIN, Display
from eventsched.output.terminal.tables import counted


def why_not_text(found: WhyNot, display: Display = PLAIN) -> str:
    """The refusal, then each remedy as a list."""
    headline = f"{found.pod} and {found.node} at attempt {found.attempt}: {_landing(found)}"
    lines = []
    first = found.remedies[0]
    if first.stuck is not None:
        lines += ["", f"No change is known with which it lands there: {_refusal(first.stuck)}"]
    elif not first.landing.lands:
        for number, remedy in enumerate(found.remedies):
            lines += ["", "Or it lands there if you" if number else "It lands there if you"]
            lines += [f"  - {change.text}" for change in remedy.changes]
    lines += ["", _proof(found)]
    style = Style.GREEN if first.landing.lands and not _given_up(found) else Style.YELLOW
    return "\n".join((display.line(headline, style), *map(display.line, lines)))


def _landing(found: WhyNot) -> str:
    landing = found.remedies[0].landing
    if given_up := _given_up(found):
        return given_up
    if landing.lands:
        return "it lands there as it is"
    if found.shortfall is not None:
        return f"feasible, {_short_of(found.shortfall)}"
    return _refusal(landing)


def _short_of(shortfall: Shortfall) -> str:
    """The points that a feasible node is short of the best one, and the plugins that took them."""
    text = f"{counted(shortfall.points, 'point')} short of {shortfall.best}"
    if not shortfall.points:
        text = f"as good as {shortfall.best}, and the draw decides"
    parts = ", ".join(f"{part.plugin} {part.difference:+}" for part in shortfall.scores)
    return f"{text}: {parts}" if parts else text


def _given_up(found: WhyNot) -> str:
    """What ended the reservation of a node that takes the pod; "" if nothing did."""
    landing, ended = found.remedies[0].landing, found.given_up
    if ended is None or landing.plugins or landing.reasons or landing.behind:
        return ""
    by = f"{ended.plugin or 'it'} gave it up"
    see = f"; see `eventsched explain {found.group}`" if found.group else ""
    return f"the node takes it, but {by}{f': {ended.message}' if ended.message else ''}{see}"


def _refusal(landing: Landing) -> str:
    reasons = "; ".join(landing.reasons)
    return f"{', '.join(landing.plugins)}: {reasons}" if landing.plugins else reasons


def _proof(found: WhyNot) -> str:
    text = f"Decided again {counted(found.decisions, 'time')} in {found.seconds:.2f} s, from the "
    text += f"state before position {found.position}."
    if any(remedy.changes for remedy in found.remedies):
        text += " No line of a list can be left out."
    return f"{text} Extenders were not asked." if found.unasked else text


def why_not_json(found: WhyNot, stream: str) -> dict[str, Any]:
    """The object that ``explain --why-not -o json`` prints."""
    first = found.remedies[0]
    return {
        "stream": stream,
        "pod": found.pod,
        "attempt": found.attempt,
        "seq": found.position,
        "node": found.node,
        "landing": _landing_json(first.landing),
        "shortfall": None if found.shortfall is None else _shortfall_json(found.shortfall),
        "givenUp": _given_up(found) or None,
        "remedies": [_remedy_json(each) for each in found.remedies if each.stuck is None],
        "stuck": None if first.stuck is None else _landing_json(first.stuck),
        "decisions": found.decisions,
        "extendersAsked": not found.unasked,
    }


def _remedy_json(remedy: Remedy) -> list[dict[str, Any]]:
    return [_change_json(change) for change in remedy.changes]


def _change_json(change: AnyChange) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(change)
    return {"kind": type(change).__name__, "text": change.text, **fields}


def _landing_json(landing: Landing) -> dict[str, Any]:
    return {
        "lands": landing.lands,
        "failedPlugins": list(landing.plugins),
        "reasons": list(landing.reasons),
        "behind": landing.behind,
    }


def _shortfall_json(shortfall: Shortfall) -> dict[str, Any]:
    scores = [
        {
            "plugin": part.plugin,
            "score": part.score,
            "best": part.best,
            "difference": part.difference,
        }
        for part in shortfall.scores
    ]
    return {"points": shortfall.points, "best": shortfall.best, "scores": scores}
