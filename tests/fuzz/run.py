"""Fuzzes a target with Atheris, or runs stored inputs (README.md).

    python -m tests.fuzz.run TARGET --seconds N
    python -m tests.fuzz.run all --seconds N
    python -m tests.fuzz.run TARGET FILE…         # without Atheris

A failing input is written to tests/fuzz/found, and fuzzing continues: another input that fails at
the same place is not written again. The exit code is 1 if an input failed.
"""

import argparse
import importlib
import os
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from tests.fuzz.targets import TARGETS

FOLDER = Path(__file__).parent
FOUND = FOLDER / "found"
WORK = FOLDER / ".work"
"""Inputs that reach new code, kept from run to run. They are not part of the repository."""
SLOWEST = 10
"""Seconds of CPU that one input may take."""
_HANGING = 60
"""Seconds after which libFuzzer takes an input for one that hangs."""
_MARGIN = 600
"""Seconds that a fuzzer may take longer than it was given."""
LARGEST_MEMORY = 2_048
"""MiB that the process may have."""
MAX_INPUT_BYTES = 4_096
"""Bytes of an input that the fuzzer makes."""
_COMMAND = (sys.executable, "-m", "tests.fuzz.run")

FuzzOne = Callable[[bytes], None]


def fuzz_one_of(target: str) -> FuzzOne:
    """The function of a target."""
    module = importlib.import_module(f"tests.fuzz.targets.{target}")
    function: FuzzOne = module.fuzz_one
    return function


def inputs(target: str) -> list[Path]:
    """The stored inputs of a target: its corpus and its valid documents."""
    folders = (FOLDER / "corpus" / target, FOLDER / "documents" / target)
    return sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir())


class Findings:
    """Runs inputs and keeps those that fail, one for each place in the code."""

    def __init__(self, target: str, fuzz_one: FuzzOne) -> None:
        self._target, self._fuzz_one = target, fuzz_one
        self._places: set[str] = set()

    def run(self, data: bytes) -> None:
        """Runs an input."""
        began = time.process_time()
        try:
            self._fuzz_one(data)
            seconds = time.process_time() - began
            if seconds > SLOWEST:
                raise TimeoutError(f"{seconds:.1f} s of CPU")
        except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
            place = _place(error)
            if place not in self._places:
                self._places.add(place)
                self._write(data, error)

    def _write(self, data: bytes, error: Exception) -> None:
        FOUND.mkdir(exist_ok=True)
        path = FOUND / f"{self._target}-{sha256(data).hexdigest()[:12]}"
        path.write_bytes(data)
        traceback.print_exception(error)
        _report(self._target, path)


def _place(error: Exception) -> str:
    """The type of an error and the last line of the product or of the target that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        f"{frame.filename}:{frame.lineno}" for frame in frames if "-packages" not in frame.filename
    ]
    return f"{type(error).__name__} {ours[-1] if ours else ''}"


def _report(target: str, path: Path) -> None:
    shown = os.path.relpath(path)
    print(f"FAILED {target}: {shown}", flush=True)
    print(f"  reproduce: python -m tests.fuzz.run {target} {shown}", flush=True)


def _fuzz(target: str, seconds: int) -> None:
    """Fuzzes in this process, which Atheris ends."""
    import atheris

    most = 2 * LARGEST_MEMORY * 2**20  # libFuzzer looks at the memory once a second
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    with atheris.instrument_imports(include=["eventsched"]):
        fuzz_one = fuzz_one_of(target)
    folder = WORK / target
    folder.mkdir(parents=True, exist_ok=True)
    FOUND.mkdir(exist_ok=True)
    options = [
        f"-max_total_time={seconds}", f"-timeout={_HANGING}", f"-rss_limit_mb={LARGEST_MEMORY}",
        f"-max_len={MAX_INPUT_BYTES}",
        f"-artifact_prefix={FOUND}/{target}-", "-print_final_stats=1",
        f"-report_slow_units={_HANGING}",
        "-verbosity=0",
    ]  # fmt: skip
    folders = [str(folder), *{str(path.parent) for path in inputs(target)}]
    atheris.Setup([sys.argv[0], *options, *folders], Findings(target, fuzz_one).run)
    atheris.Fuzz()


def _fuzz_all(targets: tuple[str, ...], seconds: int) -> int:
    """Fuzzes each target in a process of its own, and returns the exit code."""
    failed = []
    for target in targets:
        before = _found(target)
        started = time.monotonic()
        print(f"{target}: {seconds} s", flush=True)
        command = [*_COMMAND, target, "--seconds", str(seconds), "--in-process"]
        code = subprocess.run(command, check=False, timeout=seconds + _MARGIN).returncode
        new = sorted(_found(target) - before)
        for path in new:
            _report(target, path)
        if new or code:
            failed.append(target)
        print(f"{target}: ended after {time.monotonic() - started:.0f} s", flush=True)
    print(f"inputs failed of: {', '.join(failed)}" if failed else "no input failed")
    return 1 if failed else 0


def _found(target: str) -> set[Path]:
    return set(FOUND.glob(f"{target}-*"))


def main() -> int:
    """Parses the command line and runs it."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.run", description="Fuzzes a target."
    )
    parser.add_argument("target", choices=(*TARGETS, "all"))
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="inputs to run")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.files:
        for path in options.files:
            fuzz_one_of(options.target)(path.read_bytes())
            print(f"{path}: as it should be")
        return 0
    if options.in_process:
        _fuzz(options.target, options.seconds)
    return _fuzz_all(TARGETS if options.target == "all" else (options.target,), options.seconds)


if __name__ == "__main__":
    sys.exit(main())
