"""The build backend: setuptools, and man pages in wheels.

The pages are made of the parser, so a wheel is built with the packages that the parser imports.
Editable installs and sdists are built as setuptools does it. ``pip wheel -C manual=no`` leaves the
pages out, as the image does, which has no man.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = Mapping[str, Any] | None
MANUAL = Path("build", "manual")
"""From where setup.py takes the pages."""


def has_manual(settings: Settings) -> bool:
    """Whether the wheel gets man pages."""
    return (settings or {}).get("manual") != "no"


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """What setuptools needs, and what eventsched itself depends on."""
    needed = list(build_meta.get_requires_for_build_wheel())
    if not has_manual(config_settings):
        return needed
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    return needed + list(project["dependencies"])


def build_wheel(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,
) -> str:
    """The name of the wheel in the folder. The present folder is that of the sources."""
    shutil.rmtree(MANUAL, ignore_errors=True)
    try:
        if has_manual(config_settings):
            command = [sys.executable, "-m", "eventsched", "man", "--to", str(MANUAL)]
            environment = {**os.environ, "PYTHONPATH": os.getcwd(), "PYTHONDONTWRITEBYTECODE": "1"}
            subprocess.run(command, check=True, env=environment)
        return str(build_meta.build_wheel(wheel_directory, None, metadata_directory))
    finally:
        shutil.rmtree(MANUAL, ignore_errors=True)
