"""A pager for answers that are longer than the terminal.

An answer is held back until it fills the screen. A shorter one is printed without a process more,
and what goes wrong before is reported beside no pager.
"""

import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TextIO

VARIABLES = ("EVENTSCHED_PAGER", "PAGER")
"""The environment's variables that name the pager, the first one that is set. "" is none."""
_USUAL = ("less", "-FRX")
_NONE = ((), ("cat",))


def pager_command(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The words of the pager; none if there is none, or if the terminal cannot move its cursor."""
    if environ.get("TERM", "dumb") == "dumb":
        return ()
    named = next((environ[name] for name in VARIABLES if name in environ), None)
    if named is None:
        return _USUAL if shutil.which(_USUAL[0], path=environ.get("PATH")) else ()
    try:
        words = tuple(shlex.split(named))
    except ValueError:
        words = (named,)
    return () if words in _NONE else words


@contextmanager
def paged(*, wanted: bool, ends_unread: bool = False) -> Iterator[None]:
    """In the block, standard output is shown by the pager once it fills the screen, if that is
    ``wanted`` and standard output is a terminal. Ends when the pager does. If the reader ends the
    pager first, the rest of the output is dropped, and the block runs to its end, because its exit
    code is part of the answer. With ``ends_unread`` the block ends at its next output instead,
    without an error."""
    terminal = sys.stdout
    command = pager_command() if wanted and terminal.isatty() else ()
    if not command:
        yield
        return
    size = os.get_terminal_size(terminal.fileno())
    output = PagedOutput(terminal, command, size.lines, size.columns, ends_unread=ends_unread)
    sys.stdout = output
    try:
        yield
    except BrokenPipeError:
        if not output.has_pager:
            raise
    finally:
        sys.stdout = terminal
        output.end()


class PagedOutput(io.TextIOBase):
    """Standard output that begins a pager when it is longer than a screen of ``lines`` and
    ``columns``. Otherwise it answers as the terminal does, such as its width."""

    def __init__(
        self,
        terminal: TextIO,
        command: tuple[str, ...],
        lines: int,
        columns: int,
        *,
        ends_unread: bool,
    ) -> None:
        self._terminal, self._command, self._ends_unread = terminal, command, ends_unread
        self._room, self._columns = lines - 1, max(1, columns)
        self._held: list[str] = []
        self._pager: subprocess.Popen[str] | None = None
        self._is_held = True
        self._has_ended = False
        self._messages: tuple[TextIO, io.StringIO] | None = None

    @property
    def has_pager(self) -> bool:
        """Whether a pager was begun."""
        return self._pager is not None

    def write(self, text: str) -> int:
        """Holds the text back, or passes it on. If the pager has ended, the text is dropped, or
        with ``ends_unread`` BrokenPipeError is raised."""
        if not self._is_held:
            self._pass(text)
            return len(text)
        self._held.append(text)
        self._room -= sum(len(line) // self._columns for line in text.splitlines())
        self._room -= text.count("\n")
        if self._room < 0:
            self._begin()
        return len(text)

    def flush(self) -> None:
        """Flushes what was passed on."""
        if not self._is_held:
            with self._reader_may_leave():
                self._target().flush()

    def fileno(self) -> int:
        """The terminal's."""
        return self._terminal.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The terminal's."""
        return self._terminal.encoding

    def isatty(self) -> bool:
        """Whether it is a terminal: it is."""
        return True

    def end(self) -> None:
        """Passes on what is held back, and waits until the reader has ended the pager. What is
        written after that goes to the terminal: a library may have kept standard output."""
        if self._is_held:
            self._pass_on()
        if self._pager is None:
            return
        assert self._pager.stdin is not None
        with suppress(BrokenPipeError):
            self._pager.stdin.close()
        while self._pager.returncode is None:
            with suppress(KeyboardInterrupt):  # Ctrl-C is for the pager, which has the terminal
                self._pager.wait()
        self._has_ended = True
        if self._messages is not None:
            sys.stderr, held = self._messages
            sys.stderr.write(held.getvalue())

    def _target(self) -> TextIO:
        if self._pager is None or self._has_ended:
            return self._terminal
        assert isinstance(self._pager.stdin, io.TextIOBase)
        return self._pager.stdin

    def _begin(self) -> None:
        try:
            self._pager = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, text=True, stdout=self._terminal,
                encoding=self._terminal.encoding, errors=self._terminal.errors,
                env={"LESS": "FRX", **os.environ},
            )  # fmt: skip
        except OSError as error:
            problem = f"{self._command[0]}: {error.strerror}"
            print(f"eventsched: no pager: {problem}; set {VARIABLES[0]}", file=sys.stderr)
        else:
            if sys.stderr.isatty():  # what is said meanwhile would be written over the answer
                self._messages = sys.stderr, io.StringIO()
                sys.stderr = self._messages[1]
        self._pass_on()

    def _pass_on(self) -> None:
        self._is_held = False
        text, self._held = "".join(self._held), []
        if text:
            self._pass(text)

    def _pass(self, text: str) -> None:
        with self._reader_may_leave():
            self._target().write(text)

    @contextmanager
    def _reader_may_leave(self) -> Iterator[None]:
        """A pager that has ended is an error with ``ends_unread`` only; a terminal's always is."""
        try:
            yield
        except BrokenPipeError:
            if self._ends_unread or self._pager is None:
                raise
