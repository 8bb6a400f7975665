"""What differs between the states at two positions."""

from collections import Counter
from typing import Any

from eventsched.domain.errors import InputError
from eventsched.history.past_state.state_differences import differences
from eventsched.output.state_output import difference_json
from eventsched.questions.past.open_log import OpenLog
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility


def difference_page(
    stream: LoggedStream,
    sees: Visibility,
    states: FoldedStates,
    first: str,
    last: str | None,
    offset: int,
    limit: int,
) -> dict[str, Any]:
    """The differences between two positions or times, as ``eventsched diff -o json`` prints them,
    from number ``offset`` on. Raises InputError, also NotVisibleError."""
    sees.require_whole("diff")
    log = OpenLog(stream.log, stream.log)
    begin = log.position(first, "from")
    end = log.end if last is None else log.position(last, "to")
    if begin > end:
        problem = f"is position {begin}, after to ({end})"
        raise InputError("from", problem, "exchange them")
    # In the order of positions, so that two questions cannot wait for each other.
    if begin == end:
        with states.at(stream, str(begin), "from"):
            found = []
    else:
        with (
            states.at(stream, str(begin), "from") as before,
            states.at(stream, str(end), "to") as after,
        ):
            found = differences(before.state, after.state)
    more = offset + limit
    counts = Counter(f"{each.kind} {each.change}" for each in found)
    return {
        "stream": stream.name,
        "from": begin,
        "to": end,
        "counts": dict(counts),
        "differences": [difference_json(each) for each in found[offset:more]],
        "next": more if more < len(found) else None,
    }
