"""python -m tests.conformance.oracle [--scenarios] — ``make conformance-golden``

Builds the Go program in this folder, lets it answer every stored question, writes the goldens that
changed, and prints what changed. With --scenarios the stored questions are generated again first.
"""

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.oracle.generate import STORED, line, scenarios

HERE = Path(__file__).parent
FOLDER = HERE.parent
GO = "1.26"
# Questions, answers, and arguments of the program.
QUESTIONS = (
    ("scenarios.jsonl.gz", "golden.jsonl.gz", ()),
    ("scenarios-more.jsonl.gz", "golden-more.jsonl.gz", ()),
    ("scenarios-edges.jsonl.gz", "golden-edges.jsonl.gz", ()),
    ("configs.jsonl", "configs-golden.jsonl", ("config",)),
    ("configs-more.jsonl", "configs-golden-more.jsonl.gz", ("config",)),
)


class OracleError(Exception):
    """The oracle cannot be built or does not answer."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Regenerates the goldens; 1 if the oracle cannot be built or run."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.oracle")
    parser.add_argument(
        "--scenarios", action="store_true", help="generate the stored scenarios again first"
    )
    options = parser.parse_args(arguments)
    try:
        program = build()
        if options.scenarios:
            for name, (seed, count, kinds) in STORED.items():
                made = [line(each).encode() for each in scenarios(seed, count, kinds)]
                _update(FOLDER / name, made)
        for questions, answers, told in QUESTIONS:
            _update(FOLDER / answers, steady(program, _read(FOLDER / questions), told))
    except OracleError as problem:
        print(f"conformance-golden: {problem}", file=sys.stderr)
        return 1
    return 0


def build() -> Path:
    """The program, built; Go's own cache makes that short the second time. Raises OracleError."""
    if shutil.which("go") is None:
        raise OracleError(
            f"Go is missing. Install Go {GO} or newer (https://go.dev/dl/), and see that `go` is in"
            " PATH. Only new goldens need it; the tests do not."
        )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = cache / "eventsched" / "oracle"
    program.parent.mkdir(parents=True, exist_ok=True)
    print("Building the oracle (the first time takes some minutes)", flush=True)
    built = subprocess.run(
        ["go", "build", "-o", str(program), "."], cwd=HERE, check=False, timeout=1800
    )
    if built.returncode:
        raise OracleError("the oracle does not build; what Go says is above")
    return program


def ask(program: Path, questions: list[bytes], arguments: Sequence[str] = ()) -> list[bytes]:
    """The program's answers, one to each question. Raises OracleError."""
    ran = subprocess.run(
        [str(program), *arguments],
        input=b"\n".join(questions) + b"\n",
        capture_output=True,
        check=False,
        timeout=1800,
    )
    answers = ran.stdout.splitlines()
    if ran.returncode or len(answers) != len(questions):
        errors = ran.stderr.decode(errors="replace")[-2000:]
        raise OracleError(f"{len(questions)} questions, {len(answers)} answers: {errors}")
    return answers


def steady(program: Path, questions: list[bytes], arguments: Sequence[str]) -> list[bytes]:
    """The answers, if asking twice gives the same. Raises OracleError otherwise: upstream decides
    some things at random, and goldens must not depend on them."""
    first, second = ask(program, questions, arguments), ask(program, questions, arguments)
    changing = [_id(one) for one, other in zip(first, second, strict=True) if one != other]
    if changing:
        raise OracleError(
            f"another answer each time, so change the question: {', '.join(changing)}"
        )
    return first


def _update(path: Path, answers: list[bytes]) -> None:
    """Writes the answers if they differ from the file's, and prints which ids differ."""
    before = {_id(answer): answer for answer in _read(path)} if path.exists() else {}
    after = {_id(answer): answer for answer in answers}
    changed = [id_ for id_ in {**before, **after} if before.get(id_) != after.get(id_)]
    if not changed and list(before) == list(after):
        print(f"{path.name}: {len(after)}, as they were")
        return
    print(f"{path.name}: {len(after)}, {len(changed)} of them changed, new or gone")
    for id_ in changed[:20]:
        print(f"  {id_}")
    if len(changed) > 20:
        print(f"  and {len(changed) - 20} more")
    content = b"\n".join(answers) + b"\n"
    path.write_bytes(gzip.compress(content, 9, mtime=0) if path.suffix == ".gz" else content)


def _id(text: bytes) -> str:
    id_: str = json.loads(text)["id"]
    return id_


def _read(path: Path) -> list[bytes]:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines()


if __name__ == "__main__":
    sys.exit(main())
