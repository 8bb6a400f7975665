"""What the page of a decision asks."""

from typing import Any

from eventsched.pages.api_call import call_of, segment
from eventsched.pages.page_question import PageQuestion, PageRequest, literal

ROWS = 50
"""Nodes that the page lists without the heat map."""
_SQL = """\
SELECT plugin, code, reason, nodes FROM eventsched.refusals
WHERE seq = {position}{stream} ORDER BY nodes DESC;"""


def question(request: PageRequest) -> PageQuestion:
    """The request for a decision in full."""
    position, stream = segment(request.path["position"]), request.query.get("stream")
    of_stream = f" AND stream = {literal(stream)}" if stream else ""
    sql = _SQL.format(position=position, stream=of_stream) if position.isdecimal() else ""
    call = call_of(f"/decisions/{position}", stream=stream, at=request.query.get("at"))
    return PageQuestion(call, sql)


def further(request: PageRequest, answer: Any) -> dict[str, str]:
    """The first nodes by rank, and the story of this attempt with its preemption."""
    decision, stream = answer["decision"], request.query.get("stream")
    calls = {
        "verdicts": call_of(
            f"/decisions/{decision['position']}/verdicts",
            stream=stream, offset=request.query.get("offset"), limit=str(ROWS),
        )
    }  # fmt: skip
    if decision["pod"] is not None:
        path = f"/pods/{segment(decision['namespace'])}/{segment(decision['pod'])}/explain"
        asked = {"uid": decision["uid"], "attempt": str(decision["attempt"]), "stream": stream}
        asked["at"] = request.query.get("at")
        calls["story"] = call_of(path, asked)
    return calls
