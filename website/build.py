"""Builds the site of this version: python -m website.build [FOLDER]

FOLDER (default: build/site) has one folder for each version, and index.html, which leads to the
newest; the versions that are there already stay. Nothing is loaded from the internet, neither now
nor by those who read it. A broken link ends the build.
"""

import json
import subprocess
import sys
from pathlib import Path

from eventsched import __version__
from website.built_links import problems

ROOT = Path(__file__).resolve().parents[1]


def main(folder: Path) -> int:
    """The exit code."""
    target = folder.resolve() / __version__
    mkdocs = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean"]
    if subprocess.run([*mkdocs, "--site-dir", str(target)], cwd=ROOT, check=False).returncode:
        return 1
    if found := problems(target):
        print("\n".join(found), file=sys.stderr)
        return 1
    list_versions(folder)
    print(f"{folder / 'index.html'}: version {__version__}")
    return 0


def list_versions(folder: Path) -> None:
    """Writes versions.json, from which pages offer the other versions, and index.html."""
    versions = sorted(
        (path.name for path in folder.iterdir() if (path / "index.html").is_file()),
        key=lambda name: [int(part) if part.isdigit() else 0 for part in name.split(".")],
        reverse=True,
    )
    listed = [{"version": name, "title": name, "aliases": []} for name in versions]
    (folder / "versions.json").write_text(json.dumps(listed))
    (folder / "index.html").write_text(
        f'<!doctype html><meta charset="utf-8"><title>eventsched</title>'
        f'<meta http-equiv="refresh" content="0; url={versions[0]}/index.html">'
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site")))
