"""The files that pages load: read once, and served below a folder whose name changes with them."""

from hashlib import blake2b
from importlib.resources import files
from typing import NamedTuple

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
"""Ending of a file → its media type. Files with other endings are not served."""


class Asset(NamedTuple):
    """A file, its media type and its ETag."""

    content: bytes
    media_type: str
    tag: str


class Assets:
    """The files of ``static``. A browser keeps them for a year: other contents have another
    ``folder``, and modules find each other in it."""

    def __init__(self) -> None:
        self._assets: dict[str, Asset] = {}
        digest = blake2b(digest_size=8)
        for file in sorted(files(__package__).joinpath("static").iterdir(), key=lambda f: f.name):
            media_type = _TYPES.get(file.name.rpartition(".")[2])
            if media_type is None:
                continue
            content = file.read_bytes()
            tag = blake2b(content, digest_size=8).hexdigest()
            self._assets[file.name] = Asset(content, media_type, f'"{tag}"')
            digest.update(f"{file.name} {tag}\n".encode())
        self.folder = f"/assets/{digest.hexdigest()}"

    def url(self, name: str) -> str:
        """Where a file is served. Raises KeyError for one that is not there."""
        self._assets[name]
        return f"{self.folder}/{name}"

    def find(self, name: str) -> Asset | None:
        """The file of a name; None for an unknown one."""
        return self._assets.get(name)
