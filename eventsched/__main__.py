"""``python -m eventsched``."""

import sys

from eventsched.cli.main import main

sys.exit(main())
