"""``python -m jaxenv``: the same as the command ``jaxenv``."""

import sys

from jaxenv.cli import main

sys.exit(main())
