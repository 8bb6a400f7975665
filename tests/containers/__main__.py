"""``python -m tests.containers``: exit code 0 if a container engine answers, else 1 and why."""

import sys

from tests.databases import lacks_engine

if __name__ == "__main__":
    if lacks_engine():
        print(lacks_engine())
        sys.exit(1)
