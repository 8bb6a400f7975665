"""What clients of this Python have to know of its TLS connections."""

import sys

LEFT_OPEN = sys.version_info < (3, 12, 8)
"""Whether one that was given up stays open unless aiohttp closes it (python/cpython#118960)."""
