"""What holds for all tests."""

import os

# Output that is captured has no width; pytest-xdist sets one for its workers.
os.environ.pop("COLUMNS", None)
