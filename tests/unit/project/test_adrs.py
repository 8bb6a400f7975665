"""docs/adr: one form for all records, one index, and references that lead somewhere."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs" / "adr"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
SECTIONS = ["Context", "Decision", "Alternatives", "Consequences"]
HEAD = re.compile(
    r"# (?P<number>\d+)\. (?P<title>\S.*)\n\n"
    r"- Status: (?P<status>Accepted|Proposed|Rejected|Superseded by ADR \d+)\n"
    r"- Date: (?P<date>\d{4}-\d\d-\d\d)\n\n## Context\n"
)
PRIVATE = re.compile(r"\(?[Rr]uling R?\d|\b[Dd]esign \d+\.\d|\bdocument 0\d")
"""References to documents that are not in the repository."""
TEXT = {".md", ".py", ".sql", ".yaml", ".yml", ".toml", ".sh", ".ini"}


def number(path: Path) -> int:
    return int(path.name[:4])


def tracked() -> list[Path]:
    """The files of the repository; in a copy without Git those of its folders."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    if listed.returncode:
        folders = ("benchmarks", "deploy", "docs", "eventsched", "examples", "migrations", "tests")
        return [path for name in folders for path in (ROOT / name).rglob("*") if path.is_file()]
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def texts() -> list[tuple[Path, str]]:
    """Everything that people read, this file apart."""
    return [
        (path, path.read_text(encoding="utf-8"))
        for path in tracked()
        if path.suffix in TEXT and path.exists() and path != Path(__file__).resolve()
    ]


def test_numbers_have_no_gap_and_are_used_once() -> None:
    assert [number(path) for path in RECORDS] == list(range(1, len(RECORDS) + 1))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_has_the_form(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    head = HEAD.match(text)
    assert head is not None
    assert int(head["number"]) == number(path)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    for part in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]:
        assert part.strip()


def test_the_index_has_one_line_for_each_record() -> None:
    lines = re.findall(
        r"^\| (\d+) \| \[(.+?)\]\((.+?)\) \| (.+?) \|$",
        (FOLDER / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    expected = []
    for path in RECORDS:
        head = HEAD.match(path.read_text(encoding="utf-8"))
        assert head is not None
        expected.append((head["number"], head["title"], path.name, head["status"]))
    assert lines == expected


def test_references_lead_to_records() -> None:
    known = {number(path) for path in RECORDS}
    for path, text in texts():
        named = {int(each) for each in re.findall(r"\bADR (\d+)", text)}
        assert named <= known, path
        for file in re.findall(r"\badr/(\d{4}-[\w-]+\.md)", text):
            assert (FOLDER / file).exists(), f"{path}: {file}"


def test_nothing_cites_what_readers_do_not_have() -> None:
    assert not [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path, text in texts()
        if (found := PRIVATE.search(text))
    ]
