"""The setting ``api``: the HTTP API beside a scheduler (docs/api.md#beside-a-scheduler)."""

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from eventsched.domain.errors import InputError
from eventsched.process.sections.settings_part import SettingsPart


class ApiSettings(SettingsPart, frozen=True):
    """The port of the API over HTTPS, at the address and with the certificate of ``serving``; 0 for
    none. ``ui`` adds the pages. With ``authorization: requestHeaders`` clients need a certificate
    of ``client_ca_file`` and name the user in headers; with ``off`` they need no token."""

    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    ui: bool = False
    authorization: Literal["delegated", "requestHeaders", "off"] = "delegated"
    client_ca_file: str = msgspec.field(default="", name="clientCAFile")

    def problems(self) -> Iterator[InputError]:
        """A client authority without a proxy that it is for, and the other way around."""
        by_proxy = self.authorization == "requestHeaders"
        if by_proxy and not self.client_ca_file:
            remedy = "name the authority of the proxy's certificate"
            yield InputError("clientCAFile", "is missing: every client could name any user", remedy)
        if self.client_ca_file and not by_proxy:
            remedy = "set authorization to requestHeaders, or leave it out"
            yield InputError("clientCAFile", "says which clients may name a user", remedy)
