"""The entry point of `ottla` and of `python -m node`."""

import sys

from node.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
