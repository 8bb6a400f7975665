"""Serves the pages and, below /api, the API that they are made from."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from eventsched.domain.errors import InputError
from eventsched.pages.api_call import ApiAnswer, ask, call_of, segment
from eventsched.pages.assets import Assets
from eventsched.pages.form_posts import EVENTS, PageEvents, form_of
from eventsched.pages.kept_outcomes import FormOutcome, KeptOutcomes
from eventsched.pages.page_question import PageQuestion, PageRequest, typed
from eventsched.pages.rendering import embedded, environment, problem_of
from eventsched.pages.screens import SCREENS, Screen
from eventsched.pages.shown_time import ShownTime, moves, shown_time
from eventsched.web.http.entity_tags import entity_tag, names_tag
from eventsched.web.http.response_headers import with_headers

_POLICY = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'",
        "connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
    )
)  # fmt: skip
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_PAGES = {"Cache-Control": "no-cache", "Vary": "Authorization"}
_FOREVER = "public, max-age=31536000, immutable"
RESULT = "result"
"""The parameter that names a kept outcome."""
_WITHOUT_PAGE = (HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST)
"""What the API answers about a name that it does not find."""
_MOST_QUERY = 8_192
"""Bytes of a query at most."""
_MOST_FORM = 1 << 20
"""Bytes of a form at most."""


class _Shown(NamedTuple):
    """What a page is made from. ``outcome`` is the answer to what the form asks, ``address`` where
    the page with it is kept ("": nowhere). ``is_lost``: the outcome that is asked for is not."""

    screen: Screen
    asked: PageRequest
    question: PageQuestion
    answer: ApiAnswer
    streams: ApiAnswer
    further: Mapping[str, ApiAnswer]
    form: Mapping[str, str]
    outcome: ApiAnswer | None = None
    time: ShownTime | None = None
    address: str = ""
    is_lost: bool = False


class _Pages:
    """The pages over one API."""

    def __init__(self, api: ASGIApp, *, what_ifs: bool) -> None:
        self._api = api
        self._assets = Assets()
        self._templates = environment(what_ifs=what_ifs)
        self._kept = KeptOutcomes()

    def endpoint(self, screen: Screen) -> Callable[[Request], Awaitable[Response]]:
        """What answers requests of a screen."""

        async def page(request: Request) -> Response:
            if len(request.url.query) > _MOST_QUERY:
                raise HTTPException(HTTPStatus.REQUEST_URI_TOO_LONG)
            asked = PageRequest(request.path_params, typed(request.query_params))
            if (settled := await self._settled(request, screen, asked)) is not None:
                return settled
            question = screen.question(asked)
            answer = await ask(self._api, question, request)
            streams = await ask(self._api, PageQuestion("/streams"), request)
            further = await self._further(request, screen, asked, answer)
            shown = _Shown(screen, asked, question, answer, streams, further, {})
            shown = shown._replace(time=await self._time(request, screen, asked))
            if request.method == "POST" and answer.status == HTTPStatus.OK:
                return await self._posted(request, shown)
            return self._page(request, self._with_kept(shown))

        return page

    async def _settled(
        self, request: Request, screen: Screen, asked: PageRequest
    ) -> Response | None:
        """The way to the same page at a position, if it is asked for at a time that moves, such as
        ``10m``: all calls of the page are about one moment. None if it does not, or is wrong."""
        at = asked.query.get("at")
        if not screen.has_past or at is None or request.method != "GET" or not moves(at):
            return None
        call = call_of("/position", stream=asked.query.get("stream"), at=at)
        answer = await ask(self._api, PageQuestion(call), request)
        if answer.status != HTTPStatus.OK:
            return None
        query = {**asked.query, "at": str(answer.document["position"])}
        headers = {**_PAGES, "Location": f"?{urlencode(query)}", "Cache-Control": "no-store"}
        return Response(None, HTTPStatus.TEMPORARY_REDIRECT, headers)

    async def _posted(self, request: Request, shown: _Shown) -> Response:
        """The way to the page with what its form asks, so that a browser can load it again; or
        events with progress and then that page."""
        assert shown.screen.posted is not None
        given = await form_of(request)
        try:
            form = shown.screen.filled(given, shown.answer.document)
        except InputError as error:
            return self._page(request, shown._replace(form=given, outcome=_refused(error)))
        question = shown.screen.posted(shown.asked, form, shown.answer.document)

        def filled(outcome: ApiAnswer) -> _Shown:
            made = shown._replace(question=question, form=form, outcome=outcome)
            return made._replace(address=self._address(made))

        def rendered(outcome: ApiAnswer) -> Response:
            return self._page(request, filled(outcome))

        if EVENTS in request.headers.get("accept", ""):
            return PageEvents(self._api, question, request, rendered)
        made = filled(await ask(self._api, question, request))
        if not made.address:
            return self._page(request, made)
        headers = {**_PAGES, "Location": f"{made.address}#outcome", "Cache-Control": "no-store"}
        return Response(None, HTTPStatus.SEE_OTHER, headers)

    def _address(self, made: _Shown) -> str:
        """Keeps an outcome, and returns where the page with it is; "" if it is not kept."""
        assert made.outcome is not None
        if made.outcome.status != HTTPStatus.OK:
            return ""
        stream = made.answer.document["stream"]
        outcome = FormOutcome(made.question, made.form, made.outcome)
        if (name := self._kept.keep(stream, outcome)) is None:
            return ""
        own = {"stream": stream, RESULT: name}
        more = made.screen.address(made.asked, made.form)
        query = urlencode({key: value for key, value in {**more, **own}.items() if value})
        return f"?{query if len(query) <= _MOST_QUERY else urlencode(own)}"

    def _with_kept(self, shown: _Shown) -> _Shown:
        """With the outcome that the address names, or else what it fills in. The answer to the
        page's own question shows that the client may see it."""
        if shown.screen.posted is None or shown.answer.status != HTTPStatus.OK:
            return shown
        if (name := shown.asked.query.get(RESULT)) is None:
            form = shown.screen.prefilled(shown.asked, shown.answer.document)
            return shown._replace(form=form)
        found = self._kept.find(shown.answer.document["stream"], name)
        if found is None:
            return shown._replace(is_lost=True)
        question, form, outcome = found
        return shown._replace(question=question, form=form, outcome=outcome)

    async def _further(
        self, request: Request, screen: Screen, asked: PageRequest, answer: ApiAnswer
    ) -> dict[str, ApiAnswer]:
        """What the page shows besides its answer."""
        if answer.status in _WITHOUT_PAGE and screen.instead is not None:
            calls = screen.instead(asked)
        elif answer.status == HTTPStatus.OK and screen.further is not None:
            calls = screen.further(asked, answer.document)
        else:
            return {}
        return {
            name: await ask(self._api, PageQuestion(call), request) for name, call in calls.items()
        }

    async def _time(self, request: Request, screen: Screen, asked: PageRequest) -> ShownTime | None:
        """The time that the page shows; the log's end for one that is wrong."""
        stream, at = asked.query.get("stream"), asked.query.get("at")
        if not screen.has_past or (screen.is_of_past and at is None):
            return None
        at_time = PageQuestion(call_of("/position", stream=stream, at=at))
        at_end = PageQuestion(call_of("/position", stream=stream))
        answer = await ask(self._api, at_time, request)
        if at is not None and answer.status != HTTPStatus.OK:
            answer = await ask(self._api, at_end, request)
        if answer.status != HTTPStatus.OK:
            return None
        return shown_time(answer.document, is_past=at is not None, asked=at or "")

    def _page(self, request: Request, shown: _Shown) -> Response:
        screen, asked, answer, outcome = shown.screen, shown.asked, shown.answer, shown.outcome
        streams, further = shown.streams, shown.further
        known = streams.document["streams"] if streams.status == HTTPStatus.OK else []
        fine = answer.status == HTTPStatus.OK
        problem = None if fine else problem_of(answer.status, answer.document)
        keeps_form = problem is not None and _is_about_filters(screen, problem)
        name = screen.name if fine or keeps_form else "problem"
        template = self._templates.get_template(f"{name}.html")
        html = template.render(
            **self._frame(request, screen, asked),
            question=shown.question,
            form=shown.form,
            outcome=outcome,
            refusal=None if outcome is None else problem_of(outcome.status, outcome.document),
            answer=answer.document if fine else None,
            data=embedded(answer.body) if fine else "null",
            more=_Named({k: v.document for k, v in further.items() if v.status == HTTPStatus.OK}),
            problems=_Named(
                {k: _in_words(v) for k, v in further.items() if v.status != HTTPStatus.OK}
            ),
            problem=problem,
            wrong=_wrong_field(problem),
            keeps_form=keeps_form,
            streams=known,
            stream=_stream(known, asked.query.get("stream")),
            time=shown.time,
            address=shown.address,
            is_lost=shown.is_lost,
        )
        # A frame without data is not an error: the script asks for a token and loads the page.
        locked = answer.status == HTTPStatus.UNAUTHORIZED
        headers = dict(_PAGES) if not locked else {**_PAGES, "X-Needs-Token": "1"}
        if outcome is not None and request.method == "POST":
            return HTMLResponse(html, outcome.status, {**headers, "Cache-Control": "no-store"})
        status = HTTPStatus.NOT_FOUND if shown.is_lost else answer.status
        return _response(request, html, HTTPStatus.OK if locked else status, headers)

    def _frame(self, request: Request, screen: Screen | None, asked: PageRequest) -> dict[str, Any]:
        """What every page needs for its frame."""
        kept = {name: asked.query.get(name) for name in ("stream", "at")}

        def link(path: str, **values: Any) -> str:
            """A page with parameters, at the stream and the time of this one."""
            given = {name: value for name, value in {**kept, **values}.items() if value is not None}
            return call_of(path, {name: str(value) for name, value in given.items()})

        def here(**values: Any) -> str:
            """This page with other parameters; None leaves one out."""
            changed = {**asked.query, **values}
            pairs = {name: str(value) for name, value in changed.items() if value is not None}
            return f"?{urlencode(pairs)}" if pairs else request.url.path

        return {
            "asset": self._assets.url,
            "screen": screen,
            "screens": [each for each in SCREENS if each.in_navigation],
            "path": asked.path,
            "query": asked.query,
            "link": link,
            "here": here,
            "page_path": request.url.path,
        }

    async def asset(self, request: Request) -> Response:
        """A file of ``static``, in the folder of its version."""
        asset = self._assets.find(request.path_params["name"])
        if asset is None or f"/assets/{request.path_params['version']}" != self._assets.folder:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        headers = {"ETag": asset.tag, "Cache-Control": _FOREVER}
        if names_tag(request.headers.get("if-none-match"), asset.tag):
            return Response(None, HTTPStatus.NOT_MODIFIED, headers)
        return Response(asset.content, HTTPStatus.OK, headers, media_type=asset.media_type)

    async def moved(self, request: Request) -> Response:
        """The page of a pod, for links to its story, which was a page of its own."""
        namespace, name = map(segment, request.path_params.values())
        return _elsewhere(request, f"/pods/{namespace}/{name}")

    async def group(self, request: Request) -> Response:
        """The page of a pod group, by its name alone if there is no namespace in the path."""
        namespace = segment(request.path_params.get("namespace", "-"))
        return _elsewhere(
            request, f"/workloads/{namespace}/group/{segment(request.path_params['name'])}"
        )

    async def missing(self, request: Request, error: Exception) -> Response:
        """The page for a path that there is not, and for other wrong requests."""
        assert isinstance(error, HTTPException)
        status = HTTPStatus(error.status_code)
        problem = problem_of(status, {"title": status.phrase, "detail": status.description})
        query = typed(request.query_params)
        kept = {name: text for name, text in query.items() if name in ("stream", "at")}
        html = self._templates.get_template("problem.html").render(
            **self._frame(request, None, PageRequest({}, kept)),
            question=None, answer=None, data="null", problem=problem, wrong="", streams=[],
            stream=None, time=None, keeps_form=False,
        )  # fmt: skip
        return _response(request, html, status, {**(error.headers or {}), **_PAGES})


def site(api: ASGIApp, *, what_ifs: bool = True) -> ASGIApp:
    """The pages, with the API below /api. ``what_ifs``: whether it answers these."""
    pages = _Pages(api, what_ifs=what_ifs)
    routes = [Route(each.path, pages.endpoint(each), methods=each.methods) for each in SCREENS]
    starlette = Starlette(
        routes=[
            *routes,
            Route("/assets/{version}/{name}", pages.asset, methods=["GET"]),
            Route("/pods/{namespace}/{name}/story", pages.moved, methods=["GET"]),
            Route("/groups/{name}", pages.group, methods=["GET"]),
            Route("/groups/{namespace}/{name}", pages.group, methods=["GET"]),
        ],
        exception_handlers={HTTPException: pages.missing},
        max_body_size=_MOST_FORM,
    )
    starlette.router.redirect_slashes = False
    framed = with_headers(starlette, _HEADERS)

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        app = api if path == "/api" or path.startswith("/api/") else framed
        await app(scope, receive, send)

    return answered


def _elsewhere(request: Request, path: str) -> Response:
    """The way to another page with the same parameters."""
    query = f"?{request.url.query}" if request.url.query else ""
    place = {"Location": f"{path}{query}"}
    return Response(None, HTTPStatus.PERMANENT_REDIRECT, place)


class _Named(dict[str, Any]):
    """Answers by name, None for one that was not asked for or is a problem."""

    def __missing__(self, name: str) -> None:
        return None


def _is_about_filters(screen: Screen, problem: Mapping[str, Any]) -> bool:
    """Whether a problem is one of a form that the page can show all the same."""
    is_wrong = problem["status"] == HTTPStatus.BAD_REQUEST and problem["where"] != "stream"
    return is_wrong and bool(screen.fields)


def _wrong_field(problem: Mapping[str, Any] | None) -> str:
    """The field that a problem is about, by the name that the page has for it."""
    where = "" if problem is None else str(problem["where"])
    return "name" if where == "name_contains" else where


def _refused(error: InputError) -> ApiAnswer:
    """What is wrong in a form, as the API says it."""
    words = {"title": "Bad Request", "detail": error.problem, "where": error.where}
    document = {**words, "status": int(HTTPStatus.BAD_REQUEST), "remedy": error.remedy}
    return ApiAnswer(HTTPStatus.BAD_REQUEST, msgspec.json.encode(document))


def _in_words(answer: ApiAnswer) -> str:
    """The problem of an answer as one line."""
    problem = problem_of(answer.status, answer.document)
    words = "; ".join(filter(None, (problem["detail"], problem["remedy"])))
    return f"{problem['where']}: {words}" if problem["where"] else words


def _stream(streams: list[Mapping[str, Any]], name: str | None) -> str | None:
    """The name of the stream that is shown: the named one, or the only one."""
    names = [each["name"] for each in streams]
    if name is None:
        return names[0] if len(names) == 1 else None
    return name if name in names else None


def _response(request: Request, html: str, status: int, headers: Mapping[str, str]) -> Response:
    body = html.encode()
    tag = entity_tag(body)
    tagged = {**headers, "ETag": tag}
    if status == HTTPStatus.OK and names_tag(request.headers.get("if-none-match"), tag):
        return Response(None, HTTPStatus.NOT_MODIFIED, tagged)
    return Response(body, status, tagged, media_type="text/html; charset=utf-8")
