"""The setting ``api``: the HTTP API beside a scheduler (docs/api.md#beside-a-scheduler)."""

from typing import Annotated, Literal

import msgspec

from eventsched.process.sections.settings_part import SettingsPart


class ApiSettings(SettingsPart, frozen=True):
    """The port of the API over HTTPS, at the address and with the certificate of ``serving``; 0 for
    none. ``ui`` adds the pages. With ``authorization: off`` clients need no token."""

    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    ui: bool = False
    authorization: Literal["delegated", "off"] = "delegated"
