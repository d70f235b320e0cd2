"""``python -m jaxenv`` runs the command ``jaxenv``."""

import sys

from jaxenv.cli import main

sys.exit(main())
