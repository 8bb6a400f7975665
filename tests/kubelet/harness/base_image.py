"""The base of the images: the published ``python:3.13-slim`` if a registry can be reached, else a
stand-in under the same name, so that deploy/Dockerfile stays as it is: Debian 12 by debootstrap and
a Python 3.13 of this machine."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.kubelet.harness import builder, cache

PYTHON = "docker.io/library/python:3.13-slim"
DEBIAN = "localhost/eventsched-debian:12"
STAND_IN = "localhost/eventsched-python:3.13"
_VERSION = "3.13"
_PACKAGES = (
    "ca-certificates,libexpat1,libffi8,libssl3,libsqlite3-0,libbz2-1.0,liblzma5,libreadline8,"
    "libncursesw6,libuuid1,zlib1g,tzdata"
)
"""What Python's own modules load."""
_MIRROR = "http://deb.debian.org/debian"
_UNUSED = ("test", "idlelib", "tkinter", "turtledemo")
_CHECK = "import ssl, sqlite3, ctypes, lzma, bz2, venv, uuid"


def ensure_python() -> str:
    """Makes sure that the base is in the store, and returns which one it is, as text."""
    if builder.has(STAND_IN):
        builder.tag(STAND_IN, PYTHON)
        return f"a stand-in for {PYTHON}"
    if builder.has(PYTHON) or builder.pull(PYTHON):
        return PYTHON
    ensure_debian()
    with tempfile.TemporaryDirectory(dir=cache.place()) as made:
        context = Path(made)
        _copy_python(_interpreter(), context / "local")
        (context / "Dockerfile").write_text(
            f"FROM {DEBIAN}\nCOPY local /usr/local\n"
            f"RUN ldconfig && python3 -c '{_CHECK}'\nCMD [\"python3\"]\n"
        )
        builder.build(context / "Dockerfile", STAND_IN, context)
    builder.tag(STAND_IN, PYTHON)
    return f"a stand-in for {PYTHON}"


def ensure_debian() -> None:
    """Makes sure that a small Debian 12 is in the store."""
    if builder.has(DEBIAN):
        return
    with tempfile.TemporaryDirectory(dir=cache.place()) as made:
        root, context = Path(made, "root"), Path(made, "context")
        context.mkdir()
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm"]
        builder.run([*command, root, _mirror()], builder.BUILD_LIMIT)
        for name in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc"):
            shutil.rmtree(root / name)
            (root / name).mkdir()
        builder.run(["tar", "-C", root, "-cf", context / "root.tar", "."], 300)
        (context / "Dockerfile").write_text('FROM scratch\nADD root.tar /\nCMD ["bash"]\n')
        builder.build(context / "Dockerfile", DEBIAN, context)


def _mirror() -> str:
    """Debian's mirror that this machine uses, if it runs Debian."""
    for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("debian.*")]:
        text = path.read_text() if path.is_file() else ""
        found = re.search(r"^(?:URIs:|deb) (\S*://\S+)", text, re.MULTILINE)
        if found and "bookworm" in text:
            return found[1]
    return _MIRROR


def _interpreter() -> Path:
    """The folder of a Python of the right version that is installed by itself."""
    for program in _candidates():
        asked = subprocess.run(
            [program, "-c", "import sys; print(sys.base_prefix, *sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        prefix, *version = asked.stdout.split() or [""]
        if ".".join(version) == _VERSION and prefix not in ("", "/usr"):
            return Path(prefix)
    raise builder.BuildError(
        f"{PYTHON} cannot be pulled, and there is no Python {_VERSION} outside of /usr to make a"
        " stand-in of (python3.13 in PATH, pyenv or uv)"
    )


def _candidates() -> Iterator[str]:
    if found := shutil.which(f"python{_VERSION}"):
        yield found
    home = Path.home()
    for folder in (home / ".pyenv/versions", home / ".local/share/uv/python"):
        yield from map(str, sorted(folder.glob(f"*{_VERSION}*/bin/python{_VERSION}")))


def _copy_python(prefix: Path, target: Path) -> None:
    library = f"python{_VERSION}"
    left_out = shutil.ignore_patterns("__pycache__", "*.a", "config-*", "site-packages", *_UNUSED)
    shutil.copytree(prefix / "lib" / library, target / "lib" / library, True, left_out)
    packages = target / "lib" / library / "site-packages"
    packages.mkdir()
    for path in (prefix / "lib" / library / "site-packages").glob("pip*"):
        shutil.copytree(path, packages / path.name, True, left_out)
    for path in (prefix / "lib").glob("libpython*.so*"):
        shutil.copy(path, target / "lib" / path.name, follow_symlinks=False)
    (target / "bin").mkdir()
    shutil.copy((prefix / "bin" / library).resolve(), target / "bin" / library)
    for name in ("python3", "python"):
        (target / "bin" / name).symlink_to(library)
    pip = '#!/bin/sh\nexec python3 -m pip "$@"\n'
    for name in ("pip", "pip3"):
        (target / "bin" / name).write_text(pip)
        (target / "bin" / name).chmod(0o755)
