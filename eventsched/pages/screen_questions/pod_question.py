"""What the page of a pod asks."""

from typing import Any

from eventsched.pages.api_call import call_of, segment
from eventsched.pages.page_question import PageQuestion, PageRequest, command, literal

_SQL = """\
SELECT * FROM eventsched.decisions
WHERE namespace = {namespace} AND pod = {name} ORDER BY seq;"""
_KEPT = ("stream", "uid", "at")


def question(request: PageRequest) -> PageQuestion:
    """The request for a pod's timeline and story."""
    namespace, name = request.path["namespace"], request.path["name"]
    sql = _SQL.format(namespace=literal(namespace), name=literal(name))
    cli = command("explain", f"{namespace}/{name}", stream=request.query.get("stream"))
    call = _call(request, "timeline")
    return PageQuestion(call) if "at" in request.query else PageQuestion(call, sql, cli)


def further(request: PageRequest, answer: Any) -> dict[str, str]:
    """The attempts, how many pods of its controller wait for which reason if it waits itself, and
    if the page is asked for it the difference between two of them, and what would have to change
    for a node."""
    calls = {"story": _call(request, "explain")} | _alike(request, answer)
    before, dots, after = request.query.get("diff", "").partition("..")
    if dots:
        offset = request.query.get("offset")
        stream = request.query.get("stream")
        path = f"/decisions/{segment(before)}/changes/{segment(after)}"
        calls["difference"] = call_of(path, stream=stream, offset=offset)
    node = request.query.get("why-not")
    if node:
        calls["remedies"] = _why_not(request, node)
    return calls


def _alike(request: PageRequest, answer: Any) -> dict[str, str]:
    demands, waits = answer["demands"], len(answer["headline"]) > 1
    owners = (
        [each for each in demands["belongs_to"] if not each.startswith("group/")] if demands else []
    )
    if not waits or not owners:
        return {}
    kept = {key: request.query.get(key) for key in ("stream", "at")}
    namespace = request.path["namespace"]
    return {
        "alike": call_of("/pods/groups", kept, by="reason", namespace=namespace, owner=owners[-1])
    }


def instead(request: PageRequest) -> dict[str, str]:
    """If there is no such pod: the pod group of that name."""
    namespace, name = request.path["namespace"], request.path["name"]
    path = f"/workloads/{segment(namespace)}/group/{segment(name)}/explain"
    return {"group": call_of(path, stream=request.query.get("stream"))}


def _why_not(request: PageRequest, node: str) -> str:
    """An attempt is decided again as it was, so a page of the past names the attempt instead."""
    namespace, name = request.path["namespace"], request.path["name"]
    asked = {key: request.query.get(key) for key in ("stream", "uid", "attempt")}
    return call_of(f"/pods/{segment(namespace)}/{segment(name)}/why-not", asked, node=node)


def _call(request: PageRequest, what: str, **more: str) -> str:
    namespace, name = request.path["namespace"], request.path["name"]
    kept = {key: request.query.get(key) for key in _KEPT}
    return call_of(f"/pods/{segment(namespace)}/{segment(name)}/{what}", kept, **more)
