"""Takes the README's pictures of the pages: python -m website.pictures [FOLDER]

FOLDER is docs/images by default. A cluster is simulated, the same one each time, and its pages are
opened in Chromium, which has to be installed. Look at the pictures before you commit them: what
they show in words is in the README, too.
"""

import base64
import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
from playwright.sync_api import Page, sync_playwright

from website.palette_png import palette_png

ROOT = Path(__file__).resolve().parents[1]
CLUSTER = ("--generate", "nodes=300,pods=3000,shape=tight,seed=1", "--until", "98s")
"""The cluster of ``make demo``, while many of its pods wait."""
SIZE = (1280, 840)
_EVENTSCHED = (sys.executable, "-m", "eventsched")
_LOOKED_AT = 30
"""Pods of the list among which one is chosen: those that are in sight."""
_SECONDS = 60
_PIXELS = """async (url) => {
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height).data;
  let text = "";
  for (let at = 0; at < pixels.length; at += 8192) {
    text += String.fromCharCode(...pixels.subarray(at, at + 8192));
  }
  return btoa(text);
}"""
"""The pixels of a picture as base64: four bytes each, of which the last one is the opacity."""


class PicturedLog:
    """The pages over a log. ``address`` is theirs, without a slash at its end; ``stream`` is the
    one that is shown, "" for the only one."""

    def __init__(self, page: Page, address: str, stream: str) -> None:
        self.page, self._address, self._stream = page, address, stream

    def answer(self, path: str, **query: str | int) -> Any:
        """What the API answers."""
        with urllib.request.urlopen(self._url(f"/api/v1{path}", query), timeout=_SECONDS) as reply:
            return json.load(reply)

    def open(self, path: str, **query: str | int) -> None:
        """Loads a page, with all that it loads afterwards."""
        self.page.goto(self._url(path, query), wait_until="networkidle")

    def waiting_pod(self) -> str:
        """The pod that was tried most often among the first of the list, one that waits if there
        is one: ``namespace/name``."""
        pods = self.answer("/pods", limit=_LOOKED_AT)["pods"]
        chosen = max(
            pods, key=lambda pod: (pod["attempts"] > 1, pod["state"] != "bound", pod["attempts"])
        )
        return f"{chosen['namespace']}/{chosen['name']}"

    def _url(self, path: str, query: dict[str, str | int]) -> str:
        given = {**({"stream": self._stream} if self._stream else {}), **query}
        return f"{self._address}{path}?{urlencode(given)}"


def _now(log: PicturedLog) -> None:
    until = time.monotonic() + _SECONDS
    while log.answer("/now")["nodes"] is None:  # they are read in the background
        if time.monotonic() > until:
            sys.exit("the nodes were not read")
        time.sleep(0.5)
    log.open("/")


def _pods(log: PicturedLog) -> None:
    name = log.waiting_pod()
    log.open("/pods", show=name)
    log.page.locator("#panel h1").wait_for()


def _pod(log: PicturedLog) -> None:
    namespace, _, name = log.waiting_pod().partition("/")
    path = f"/pods/{quote(namespace)}/{quote(name)}"
    first, *others = log.answer(f"{path}/explain")["attempts"]
    log.open(path, **({"diff": f"{first['seq']}..{others[-1]['seq']}"} if others else {}))


def _decision(log: PicturedLog) -> None:
    newest = log.answer("/decisions", outcome="scheduled", limit=100)["decisions"]
    chosen = max(newest, key=lambda decision: decision["feasible"] or 0)
    log.open(f"/decisions/{chosen['position']}", node=chosen["node"])


PICTURES: dict[str, Callable[[PicturedLog], None]] = {
    "now": _now, "pods": _pods, "pod": _pod, "decision": _decision,
}  # fmt: skip
"""Name of the file → what opens the page that it shows."""


def take(chromium: str, address: str, folder: Path, stream: str = "") -> None:
    """Writes the pictures of the pages at an address into a folder."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        for name, show in PICTURES.items():
            page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
            page.set_default_timeout(_SECONDS * 1_000)
            show(PicturedLog(page, address, stream))
            taken = base64.b64encode(page.screenshot(animations="disabled")).decode()
            page.goto("about:blank")
            pixels = page.evaluate(_PIXELS, f"data:image/png;base64,{taken}")
            page.close()
            rgba = np.frombuffer(base64.b64decode(pixels), dtype=np.uint8)
            picture = palette_png(rgba.reshape(SIZE[1], SIZE[0], 4)[:, :, :3])
            (folder / f"{name}.png").write_bytes(picture)
        browser.close()


@contextmanager
def _served(data: str) -> Iterator[str]:
    """The address of the pages over an embedded database."""
    command = [*_EVENTSCHED, "serve", "--port", "0", "--data-dir", data]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            if len(words) != 2:
                sys.exit("eventsched serve has not begun")
            yield words[1].removesuffix("/api/v1")
        finally:
            process.terminate()


def main(folder: Path) -> int:
    """The exit code."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("there is no Chromium: apt-get install chromium", file=sys.stderr)
        return 1
    with TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as data:
        Path(data).chmod(0o755)  # started by root, Postgres runs as another user
        simulate = [*_EVENTSCHED, "simulate", *CLUSTER, "--data-dir", f"{data}/log"]
        subprocess.run(simulate, check=True, cwd=ROOT)
        with _served(f"{data}/log") as address:
            take(chromium, address, folder)
    print(f"{folder}: {', '.join(f'{name}.png' for name in PICTURES)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"))
