"""What the server and the process of a what-if say to each other: a job on the process's stdin, and
lines of JSON on its stdout, of which the last one is the result."""

from typing import Any

import msgspec

from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.questions.what_ifs.what_if_answer import WhatIfQuestion


class WhatIfJob(msgspec.Struct, frozen=True, kw_only=True):
    """A question, the addresses of the log and of the database for results (""; none), the files
    with plugins, and after how many seconds the process ends itself."""

    question: WhatIfQuestion
    address: str
    plugins: list[str]
    store_in: str
    seconds: int


class WhatIfAdvanced(msgspec.Struct, frozen=True, tag="advanced"):
    """``done`` of ``total`` records were decided again."""

    done: int
    total: int


class WhatIfDone(msgspec.Struct, frozen=True, tag="done"):
    """The result."""

    document: dict[str, Any]


class WhatIfRefused(msgspec.Struct, frozen=True, tag="refused"):
    """What the client asked cannot be answered."""

    where: str
    problem: str
    remedy: str

    def error(self) -> Exception:
        """As it was raised."""
        return InputError(self.where, self.problem, self.remedy)


class WhatIfUnavailable(msgspec.Struct, frozen=True, tag="unavailable"):
    """A database cannot be used."""

    where: str
    problem: str
    remedy: str

    def error(self) -> Exception:
        """As it was raised."""
        return UnavailableError(self.where, self.problem, self.remedy)


class LogDamaged(msgspec.Struct, frozen=True, tag="damaged"):
    """The log is damaged at a position."""

    position: int
    reason: str

    def error(self) -> Exception:
        """As it was raised."""
        return CorruptLogError(self.position, self.reason)


Message = WhatIfAdvanced | WhatIfDone | WhatIfRefused | WhatIfUnavailable | LogDamaged
decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
