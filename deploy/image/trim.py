"""Makes the image's environment small, and equal in every build.

    python trim.py FOLDER       FOLDER is the virtual environment

- Tests, type stubs, headers and static libraries of packages are removed.
- Debug symbols of extension modules are removed by ``strip`` if there is one.
- The modules that the scheduler imports are compiled. Python cannot do that in the image, whose
  files are read-only. The compiled files hold a hash instead of a time, and are not checked when
  they are loaded. Modules that only other commands import are compiled in memory on use.
- All files get the time SOURCE_DATE_EPOCH.
"""

import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

NOT_NEEDED = {".a", ".c", ".h", ".pxd", ".pyi", ".pyx"}
"""Suffixes of files that only builds and type checkers read."""
TEST_FOLDERS = {"test", "tests"}
IMPORTED_BY_OTHERS = {"numpy/_core/tests/__init__.py", "numpy/_core/tests/_natype.py"}
"""Files in test folders that numpy.testing imports, and SciPy with it."""
ENTRY_MODULES = (
    "eventsched.cli.main",
    "eventsched.cli.run",
    "eventsched.eventlog.database",
    "eventsched.process.service",
    "eventsched.process.service_plan",
)
"""What ``eventsched run`` imports, directly or by these."""
_LIST = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*(file for module in sys.modules.values()
        if (file := getattr(module, "__file__", None)) and file.endswith(".py")), sep="\\n")
"""


def trim(packages: Path) -> None:
    """Removes from ``packages`` (site-packages) what no program imports."""
    for file in sorted(packages.rglob("*")):
        within = file.relative_to(packages)
        if file.is_dir() or within.as_posix() in IMPORTED_BY_OTHERS:
            continue
        if file.suffix in NOT_NEEDED or TEST_FOLDERS & set(within.parts[1:-1]):
            file.unlink()
    for folder in sorted((path for path in packages.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()


def strip(packages: Path) -> None:
    """Removes debug symbols of extension modules. The libraries that wheels bring along
    (``*.libs``) stay as they are: they have hardly any, and ``strip`` can damage those that a
    wheel's build has rewritten."""
    program = shutil.which("strip")
    modules = [
        file for file in sorted(packages.rglob("*.so")) if not file.parent.name.endswith(".libs")
    ]
    if program and modules:
        subprocess.run([program, "--strip-unneeded", *map(str, modules)], check=True)


def imported(python: Path, modules: tuple[str, ...]) -> list[Path]:
    """The source files that ``python`` has loaded after it has imported ``modules``."""
    # -I: the working folder of the build has a package of the same name.
    command = [str(python), "-I", "-B", "-c", _LIST, *modules]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    return sorted(map(Path, listed.stdout.split("\n")[:-1]))


def compile_sources(files: list[Path]) -> None:
    """Compiles source files into the folders beside them, without times in the compiled ones."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for file in files:
        compiled = file.parent / "__pycache__" / f"{file.stem}.{sys.implementation.cache_tag}.pyc"
        py_compile.compile(str(file), str(compiled), doraise=True, invalidation_mode=mode)


def set_times(folder: Path, epoch: int) -> None:
    """Sets the time of ``folder`` and of all in it to ``epoch`` (s since 1970)."""
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def main() -> None:
    """Trims the virtual environment that the command line names."""
    folder = Path(sys.argv[1]).absolute()
    (packages,) = folder.glob("lib/python3.*/site-packages")
    trim(packages)
    strip(packages)
    loaded = imported(folder / "bin" / "python", ENTRY_MODULES)
    compile_sources([file for file in loaded if file.is_relative_to(folder)])
    set_times(folder, int(os.environ.get("SOURCE_DATE_EPOCH", "0")))


if __name__ == "__main__":
    main()
