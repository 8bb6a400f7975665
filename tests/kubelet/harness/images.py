"""The images of the tests, each a file in the cache under the digest of what it is made from:
eventsched's own three from deploy/Dockerfile, an earlier release's from that of its own tree,
Postgres from Debian's package (tests/containers), and one that does nothing."""

import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.kubelet.harness import base_image, builder, cache

ROOT = Path(__file__).resolve().parents[3]
PAUSE = "localhost/eventsched-pause:1"
POSTGRES = "docker.io/library/postgres:15"
SCHEDULER = "docker.io/library/eventsched:0.1.0"
EMBEDDED = "docker.io/library/eventsched:0.1.0-embedded"
ARCHIVE = "docker.io/library/eventsched:0.1.0-archive"
RELEASED = "docker.io/library/eventsched:released"
RELEASE = "db496c5"
"""The commit of version 0.1."""
_CONTAINERS = ROOT / "tests" / "containers"
_PAUSE_SOURCE = Path(__file__).parent / "pause"


@dataclass(frozen=True)
class ImageSource:
    """An image's name, the digest of its sources, and what builds it into buildah's store."""

    name: str
    digest: str
    build: Callable[[], None]


def sources() -> list[ImageSource]:
    """Of all images, those that change least first."""
    base = base_image.ensure_python()
    pause = cache.digest_of_files(_PAUSE_SOURCE, ["main.go", "go.mod"])
    postgres = cache.digest_of_files(_CONTAINERS, ["Dockerfile", "entrypoint.sh"])
    tree = cache.digest_of_files(ROOT, _context_of_tree(), base)
    release = [ImageSource(RELEASED, cache.digest(RELEASE, base), _build_release)]
    return [
        ImageSource(PAUSE, pause, _build_pause),
        ImageSource(POSTGRES, postgres, _build_postgres),
        *(release if has_release() else []),
        ImageSource(SCHEDULER, tree, partial(_build_tree, SCHEDULER, [])),
        _with_extra(EMBEDDED, tree, "embedded"),
        _with_extra(ARCHIVE, tree, "archive"),
    ]


def _with_extra(name: str, tree: str, extra: str) -> ImageSource:
    """An image with one extra more than the scheduler's."""
    extras = f"EXTRAS=in-cluster,prometheus,otel,{extra}"
    return ImageSource(name, cache.digest(tree, extras), partial(_build_tree, name, [extras]))


def archive(source: ImageSource) -> Path:
    """The image as a file, built if it is not in the cache."""
    name = re.sub(r"\W+", "-", source.name.rpartition("/")[2])
    folder = cache.place() / "images"
    path = folder / f"{name}-{source.digest}.tar"

    def make(half: Path) -> None:
        source.build()
        builder.save(source.name, half)

    cache.once(path, make)
    for other in folder.glob(f"{name}-*.tar"):
        if other != path and re.fullmatch(rf"{name}-[0-9a-f]{{16}}\.tar", other.name):
            other.unlink()
    return path


def _context_of_tree() -> list[str]:
    """The files that deploy/Dockerfile copies, and what says how."""
    listed = _git("ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *_COPIED)
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


_COPIED = (
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
    "eventsched",
    "migrations",
    "deploy/image",
    "deploy/wheel",
    "deploy/Dockerfile",
    "deploy/Dockerfile.dockerignore",
)


def _git(*arguments: str) -> str:
    return builder.run(["git", *arguments], 60, ROOT)


def _build_tree(image: str, arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir=cache.place()) as made:
        for name in _context_of_tree():
            target = Path(made, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
            target.chmod((ROOT / name).stat().st_mode & 0o777)
        builder.build(Path(made, "deploy/Dockerfile"), image, Path(made), arguments)


def _build_release() -> None:
    with tempfile.TemporaryDirectory(dir=cache.place()) as made:
        tree = Path(made, "tree")
        tree.mkdir()
        _git("archive", f"--output={made}/tree.tar", RELEASE)
        builder.run(["tar", "-C", tree, "-xf", f"{made}/tree.tar"], 120)
        builder.build(tree / "deploy/Dockerfile", RELEASED, tree)


def _build_postgres() -> None:
    base_image.ensure_debian()
    dockerfile = _CONTAINERS / "Dockerfile"
    builder.build(dockerfile, POSTGRES, _CONTAINERS, [f"BASE={base_image.DEBIAN}"])


def _build_pause() -> None:
    with tempfile.TemporaryDirectory(dir=cache.place()) as made:
        command = ["env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-ldflags=-s -w"]
        builder.run([*command, "-o", f"{made}/pause", "."], 600, _PAUSE_SOURCE)
        Path(made, "Dockerfile").write_text(
            'FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT ["/pause"]\n'
        )
        builder.build(Path(made, "Dockerfile"), PAUSE, Path(made))


def has_release() -> bool:
    """Whether this clone has the commit of the release: a shallow one has not."""
    asked = subprocess.run(
        ["git", "cat-file", "-e", f"{RELEASE}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return asked.returncode == 0
