"""What holds for all tests."""

import os
import sys
from pathlib import Path

# Output that is captured has no width; pytest-xdist sets one for its workers.
os.environ.pop("COLUMNS", None)

# Tests start hundreds of processes. Without bytecode each of them compiles all that it imports,
# which takes longer than most tests. Where the environment forbids bytecode beside the sources, it
# is kept with the virtual environment.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(sys.prefix) / "pycache")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
