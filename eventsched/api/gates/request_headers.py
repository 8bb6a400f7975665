"""The user that an authenticating proxy names in the headers of a request.

The names of the headers are those that Kubernetes' own servers take from a front proxy. Whether the
client is the proxy is not decided here: its certificate, or the network, has to say so. Upstream:
apiserver/pkg/authentication/request/headerrequest, group/authenticated_group_adder.go; there the
first of several users is taken.
"""

from http import HTTPStatus
from urllib.parse import unquote

from starlette.datastructures import Headers

from eventsched.api.gates.gate import RefusedError
from eventsched.web.authorization import ANONYMOUS, User

USER, UID, GROUP, EXTRA = "x-remote-user", "x-remote-uid", "x-remote-group", "x-remote-extra-"
_AUTHENTICATED = "system:authenticated"
_ADDED = {_AUTHENTICATED, *ANONYMOUS.groups}


def proxied_user(headers: Headers) -> User:
    """The user of a request with all groups; every user except the anonymous one is authenticated.
    Raises RefusedError if no user is named, or more than one: then the proxy has added its header
    to one of the client's instead of replacing it."""
    names = _values(headers, USER)
    if len(names) > 1:
        detail = "the request names more than one user: its proxy does not remove X-Remote-User"
        raise RefusedError(HTTPStatus.UNAUTHORIZED, detail)
    if not names or not names[0]:
        raise RefusedError(HTTPStatus.UNAUTHORIZED, "the proxy names no user (X-Remote-User)")
    groups = list(filter(None, _values(headers, GROUP)))
    if names[0] != ANONYMOUS.username and not _ADDED & set(groups):
        groups.append(_AUTHENTICATED)
    extra: dict[str, list[str]] = {}
    for name, value in headers.items():
        if name.startswith(EXTRA):
            extra.setdefault(unquote(name.removeprefix(EXTRA)), []).append(_text(value))
    uid = next(iter(_values(headers, UID)), "")
    return User(names[0], uid, tuple(groups), extra)


def _values(headers: Headers, name: str) -> list[str]:
    return [_text(value) for value in headers.getlist(name)]


def _text(value: str) -> str:
    """A header's value, which Starlette reads as Latin-1, as the UTF-8 that it is if it is."""
    try:
        return value.encode("latin-1").decode().strip()
    except UnicodeDecodeError:
        return value.strip()
