"""What the page of a workload or pod group asks."""

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
