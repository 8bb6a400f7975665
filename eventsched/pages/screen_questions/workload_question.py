"""What the page of a workload or pod group asks."""

from typing import Any

from eventsched.pages.api_call import call_of, segment
from eventsched.pages.page_question import PageQuestion, PageRequest, command

_ANY = "-"
"""In the place of a namespace: any."""


def question(request: PageRequest) -> PageQuestion:
    """The request for its pods, by why they wait."""
    namespace, kind, name = (request.path[part] for part in ("namespace", "kind", "name"))
    stream = request.query.get("stream")
    path = "/".join(segment(part) for part in (namespace, kind, name))
    word = f"{kind}/{name}" if namespace == _ANY else f"{namespace}/{kind}/{name}"
    call = call_of(f"/workloads/{path}/explain", stream=stream)
    return PageQuestion(call, cli=command("explain", word, stream=stream))


def further(request: PageRequest, answer: Any) -> dict[str, str]:
    """The story of the pod whose next step is the workload's, for the nodes that it names."""
    waiting = [pod for each in answer["groups"] if each["tried"] for pod in each["examples"][:1]]
    if not answer["next_step"] or not waiting:
        return {}
    namespace, _, name = waiting[0].partition("/")
    path = f"/pods/{segment(namespace)}/{segment(name)}/explain"
    return {"waiting": call_of(path, stream=request.query.get("stream"))}
