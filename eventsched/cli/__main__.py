"""``python -m eventsched.cli``."""

import sys

from eventsched.cli.main import main

sys.exit(main())
