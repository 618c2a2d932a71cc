"""`python -m samedevice`."""

import sys

from samedevice.cli import main

if __name__ == "__main__":
    sys.exit(main())
