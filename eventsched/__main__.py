"""``python -m eventsched``."""

import sys

from eventsched.entry import main

sys.exit(main())
