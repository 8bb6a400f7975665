"""containerd's folder with the images in it, made once: each image is imported into a copy of the
folder that has those before it. A copy shares its files, except for databases, with its original
(hard links), as containerd never writes into what it has unpacked."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.kubelet.harness import builder, cache
from tests.waiting import until

FOLDERS = "containerd"
IMPORT = "import"
"""The folder of a containerd that imports."""
_SNAPSHOTTERS = ("aufs", "btrfs", "devmapper", "zfs")


def settings(root: str, state: str, socket: str, more: Sequence[str] = ()) -> str:
    """The first lines of a configuration file; ``more`` are plugins that are left out, too."""
    disabled = [*(f"io.containerd.snapshotter.v1.{name}" for name in _SNAPSHOTTERS), *more]
    return f"""\
version = 2
root = "{root}"
state = "{state}"
disabled_plugins = {json.dumps(disabled)}
[grpc]
  address = "{socket}"
"""


def filled(archives: Sequence[Path]) -> Path:
    """A folder with these images. Not to be used itself: ``copy`` it."""
    folders = cache.place() / FOLDERS
    used: list[Path] = []
    for count, archive in enumerate(archives, 1):
        path = folders / cache.digest(*(each.name for each in archives[:count]))
        previous = used[-1] if used else None
        used.append(cache.once(path, partial(_add, archive, previous)))
    for other in folders.iterdir():
        if other not in used:
            cache.remove(other)
    return used[-1]


def copy(source: Path, target: Path) -> None:
    """A folder that containerd may use."""
    builder.run(["cp", "--archive", "--link", source, target], 300)
    for database in target.glob("*/*.db"):
        original = source / database.relative_to(target)
        database.unlink()
        shutil.copy2(original, database)


def _add(archive: Path, previous: Path | None, folder: Path) -> None:
    if previous is not None:
        copy(previous, folder)
    folder.mkdir(exist_ok=True)
    with _running(folder) as socket:
        client = ["ctr", f"--address={socket}", "--namespace=k8s.io"]
        builder.run([*client, "images", "import", archive], 600)


@contextmanager
def _running(root: Path) -> Iterator[Path]:
    """A containerd for as long as the block lasts, with mounts of its own; its socket."""
    state = cache.place() / IMPORT
    cache.remove(state)
    state.mkdir()
    socket = state / "containerd.sock"
    configuration = state / "containerd.toml"
    configuration.write_text(
        settings(str(root), str(state / "state"), str(socket), ["io.containerd.grpc.v1.cri"])
    )
    command = ["unshare", "--mount", "--fork", "--kill-child", "containerd"]
    with (state / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--config={configuration}"], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        until(lambda: _is_up(socket), "containerd answers", 60, of=process, every=0.1)
        yield socket
    finally:
        process.kill()
        process.wait(60)
        cache.remove(state)


def _is_up(socket: Path) -> bool:
    asked = subprocess.run(
        ["ctr", f"--address={socket}", "version"], capture_output=True, check=False, timeout=60
    )
    return asked.returncode == 0
