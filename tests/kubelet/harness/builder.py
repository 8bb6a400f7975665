"""buildah with a store of its own in the cache."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.kubelet.harness import cache

BUILD_LIMIT = 1800.0
"""Seconds that an image may take."""
PULL_LIMIT = 120.0
_BEFOREHAND = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf")
"""The machine's certificates and package index, for the time of the build: nothing of them stays in
the image."""
_ENGINE = """\
[containers]
# Machines that are containers themselves often allow less than buildah's own limits.
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


class BuildError(Exception):
    """A program of the build failed; the text has the end of what it printed."""


def run(command: Sequence[str | Path], within: float, folder: Path | None = None) -> str:
    """What a command prints. Raises BuildError, TimeoutExpired."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=within,
    )
    if done.returncode:
        shown = " ".join(str(part) for part in command)
        raise BuildError(f"{shown}: exit code {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def _environment() -> dict[str, str]:
    folder = cache.place() / "buildah"
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    storage = folder / "storage.conf"
    storage.write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n'
    )
    (folder / "containers.conf").write_text(_ENGINE)
    return {
        **os.environ,
        "TMPDIR": str(folder / "tmp"),
        "CONTAINERS_STORAGE_CONF": str(storage),
        "CONTAINERS_CONF": str(folder / "containers.conf"),
    }


def has(image: str) -> bool:
    """Whether the store has the image."""
    try:
        run(["buildah", "inspect", "--type", "image", image], 60)
    except BuildError:
        return False
    return True


def pull(image: str) -> bool:
    """Whether a registry gave the image."""
    try:
        run(["buildah", "pull", "--quiet", image], PULL_LIMIT)
    except (BuildError, subprocess.TimeoutExpired):
        return False
    return True


def tag(image: str, name: str) -> None:
    """A second name for an image."""
    run(["buildah", "tag", image, name], 60)


def build(dockerfile: Path, image: str, context: Path, arguments: Sequence[str] = ()) -> None:
    """Builds an image; ``arguments`` are ``NAME=value``."""
    volumes = [f"--volume={path}:{path}:ro" for path in _BEFOREHAND if Path(path).exists()]
    command: list[str | Path] = ["buildah", "build", "--runtime=runc", "--network=host", *volumes]
    command += [f"--build-arg={argument}" for argument in arguments]
    run([*command, "--file", dockerfile, "--tag", image, context], BUILD_LIMIT)


def save(image: str, archive: Path) -> None:
    """Writes an image to a file that containerd can import."""
    run(["buildah", "push", "--quiet", image, f"docker-archive:{archive}:{image}"], 600)
