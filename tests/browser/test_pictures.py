"""The script that takes the README's pictures, over a seeded history."""

import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.databases import ROOT
from tests.postgres.histories import ODD
from website.palette_png import palette_png
from website.pictures import PICTURES, SIZE, take

pytestmark = pytest.mark.process


def test_each_picture_of_the_readme_is_taken(chromium: str, url: str, tmp_path: Path) -> None:
    take(chromium, url, tmp_path, ODD)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {path.stem for path in tmp_path.iterdir()} == set(PICTURES)
    assert {path.stem for path in (ROOT / "docs/images").iterdir()} == set(PICTURES)
    taken = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for name, content in taken.items():
        assert f"(docs/images/{name})" in readme
        width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
        assert (width, height) == SIZE
    assert len(set(taken.values())) == len(PICTURES)


def test_a_palette_has_the_frequent_colours_and_the_nearest_for_others() -> None:
    rgb = np.zeros((3, 256, 3), dtype=np.uint8)
    rgb[:, :, 0] = np.arange(256)
    rgb[0, 0] = (0, 9, 0)  # one pixel, of the 257th colour
    content = palette_png(rgb)
    place = content.index(b"PLTE") + 4
    palette = np.frombuffer(content[place : place + 768], dtype=np.uint8).reshape(256, 3)
    assert sorted(palette[:, 0]) == list(range(256))
    assert not palette[:, 1:].any()
    place = content.index(b"IDAT")
    length = int.from_bytes(content[place - 4 : place], "big")
    rows = np.frombuffer(zlib.decompress(content[place + 4 : place + 4 + length]), dtype=np.uint8)
    pixels = palette[rows.reshape(3, 257)[:, 1:]]
    assert pixels[0, 0].tolist() == [0, 0, 0]
    assert (pixels[1:] == rgb[1:]).all()
