"""Characters for an output that is not in UTF-8, such as a terminal in the locale C.

Texts, bars and names are written as they are everywhere else. What the encoding lacks is replaced
when it is written, so nothing that prints has to know.
"""

import codecs
import io
from typing import TextIO

_NAME = "eventsched.stand_in"
_STAND_INS = str.maketrans(
    {
        **dict.fromkeys("▏▎▍", "-"), **dict.fromkeys("▌▋▊▉", "="), "█": "#", "·": ".",
        **dict(zip("▁▂▃▄▅▆▇", "_.:-=+*", strict=True)),
        "…": "...", "→": "->", "µ": "u", "\N{REPLACEMENT CHARACTER}": "?",
    }
)  # fmt: skip
"""What takes the place of the characters that this package prints. Those of bars and curves keep
their width."""


def fall_back_to_ascii(output: TextIO) -> None:
    """From now on the output takes every character. Those that its encoding lacks have a stand-in
    of ASCII, or are escaped (``\\u4e16``), as Python does on standard error."""
    if isinstance(output, io.TextIOWrapper) and not shows_all(output):
        codecs.register_error(_NAME, _stand_in)
        output.reconfigure(errors=_NAME)


def shows_all(output: TextIO) -> bool:
    """Whether the output's encoding is UTF-8; an output without an encoding takes all text."""
    encoding = getattr(output, "encoding", None)
    return encoding is None or codecs.lookup(encoding).name == "utf-8"


def _stand_in(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_STAND_INS)
    return text.encode("ascii", "backslashreplace").decode(), error.end
