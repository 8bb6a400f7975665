"""The scripts that make the image's environment small and equal in every build, and its bill of
materials; and that a pod needs no package which the image lacks."""

import json
import os
import re
import subprocess
import sys
import time
from importlib.metadata import distributions
from pathlib import Path

import pytest

from .rendering import DEPLOY

TRIM, SBOM = (DEPLOY / "image" / name for name in ("trim.py", "sbom.py"))
EPOCH = 1767225600


def environment(folder: Path) -> Path:
    """A virtual environment with a package of every kind of file; returns its site-packages."""
    command = [sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(folder)]
    subprocess.run(command, check=True, timeout=120)
    (packages,) = folder.glob("lib/python3.*/site-packages")
    for name in (
        "numpy/__init__.py",
        "numpy/__init__.pyi",
        "numpy/lib/libnpymath.a",
        "numpy/_core/include/array.h",
        "numpy/_core/tests/__init__.py",
        "numpy/_core/tests/_natype.py",
        "numpy/_core/tests/test_array.py",
        "numpy/ma/tests/data/input.bin",
        "tests/__init__.py",
        "numpy/testing/__init__.py",
    ):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text("")
    return packages


def module(script: Path) -> dict[str, object]:
    """The names that a script defines."""
    names: dict[str, object] = {"__name__": script.stem}
    exec(compile(script.read_text(), str(script), "exec"), names)
    return names


def run(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, **environ}
    )


def test_what_only_builds_and_tests_read_is_removed(tmp_path: Path) -> None:
    packages = environment(tmp_path / "env")
    names = module(TRIM)
    names["trim"](packages)  # type: ignore[operator]
    left = {path.relative_to(packages).as_posix() for path in packages.rglob("*") if path.is_file()}
    assert left == {
        "numpy/__init__.py",
        "numpy/_core/tests/__init__.py",
        "numpy/_core/tests/_natype.py",
        "tests/__init__.py",  # a distribution of this name, not the tests of one
        "numpy/testing/__init__.py",
    }
    assert not (packages / "numpy" / "ma").exists()


def test_two_environments_are_equal_after_it(tmp_path: Path) -> None:
    contents = []
    for at in (1_000_000_000, 1_700_000_000):
        folder = tmp_path / "env"
        packages = environment(folder)
        source = packages / "numpy" / "__init__.py"
        source.write_text("NAMES = frozenset({'a', 'b', 'c'})\n")
        os.utime(source, (at, at))
        names = module(TRIM)
        python = folder / "bin" / "python"
        loaded = names["imported"](python, ("numpy",))  # type: ignore[operator]
        assert source in loaded
        names["compile_sources"]([source])  # type: ignore[operator]
        names["set_times"](folder, EPOCH)  # type: ignore[operator]
        assert {path.lstat().st_mtime for path in folder.rglob("*")} == {EPOCH}
        (compiled,) = (source.parent / "__pycache__").glob("*.pyc")
        assert compiled.read_bytes()[4:8] == b"\x01\0\0\0"  # by hash, not checked (PEP 552)
        contents.append(compiled.read_bytes())
        folder.rename(tmp_path / str(at))
    assert contents[0] == contents[1]


def test_the_modules_that_are_compiled_exist() -> None:
    names = module(TRIM)
    loaded = names["imported"](Path(sys.executable), names["ENTRY_MODULES"])  # type: ignore[operator]
    found = {path.as_posix() for path in loaded}
    for part in ("eventsched/process/service.py", "eventsched/web/metrics.py", "numpy/__init__.py"):
        assert any(path.endswith(part) for path in found), part


def test_modules_of_the_working_folder_are_not_compiled_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = environment(tmp_path / "env")
    (tmp_path / "source" / "numpy").mkdir(parents=True)
    (tmp_path / "source" / "numpy" / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path / "source")
    loaded = module(TRIM)["imported"](tmp_path / "env" / "bin" / "python", ("numpy",))  # type: ignore[operator]
    assert packages / "numpy" / "__init__.py" in loaded


def test_the_bill_of_materials() -> None:
    command = [sys.executable, str(SBOM)]
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    runs = [
        subprocess.run(
            command, check=True, capture_output=True, text=True, env=environ, timeout=120
        ).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    bill = json.loads(runs[0])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH))
    assert bill["metadata"]["timestamp"] == moment
    assert bill["metadata"]["component"]["name"] == "eventsched"
    listed = {component["name"] for component in bill["components"]} | {"eventsched"}
    installed = {re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower() for each in distributions()}
    assert listed == installed
    numpy = next(each for each in bill["components"] if each["name"] == "numpy")
    assert numpy["purl"] == numpy["bom-ref"] == f"pkg:pypi/numpy@{numpy['version']}"
    assert numpy["licenses"]


def test_a_pod_needs_no_package_for_kubeconfigs() -> None:
    """The image does not have the package ``kubernetes``."""
    code = (
        "import sys; sys.modules['kubernetes'] = None\n"
        "import eventsched.cli.run, eventsched.process.service, eventsched.process.service_plan"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_a_kubeconfig_without_its_package(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys; sys.modules['kubernetes'] = None\n"
        "from eventsched.cluster.kube.http.access import from_kubeconfig\n"
        "from eventsched.domain.errors import InputError\n"
        "try:\n    asyncio.run(from_kubeconfig('some.conf')())\n"
        "except InputError as error:\n    print(error)"
    )
    said = run(code).stdout
    assert "kubeconfig some.conf" in said
    assert "the package kubernetes" in said
    assert "eventsched[cluster]" in said


def test_every_image_can_trace() -> None:
    """docs/how-to/trace-attempts.md says so."""
    extras = re.findall(r"EXTRAS=([\w,-]+)", (DEPLOY / "Dockerfile").read_text())
    assert len(extras) == 4
    assert all("otel" in each.split(",") for each in extras)


@pytest.mark.parametrize("name", ["VERSION", "SOURCE_DATE_EPOCH"])
def test_the_arguments_of_the_image(name: str) -> None:
    from eventsched import __version__

    values = dict(re.findall(r"^ARG (\w+)=(\S+)$", (DEPLOY / "Dockerfile").read_text(), re.M))
    assert values[name] == {"VERSION": __version__, "SOURCE_DATE_EPOCH": str(EPOCH)}[name]
