"""The entry point of the command `ottla`, also as `python -m ottla`."""

import sys

from ottla.node.cli.standard_streams import open_closed_streams

# Our libraries load these if they are installed, for functions that a node never uses: encryption by
# pysyncobj, whose links are our own, and compression of metrics. They take 10 MB in each node.
UNUSED_BY_A_NODE = ("cryptography", "snappy")


def main() -> int:
    """Run the command line."""
    open_closed_streams()
    if sys.argv[1:2] == ["start"]:
        for name in UNUSED_BY_A_NODE:
            sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # makes its import fail
    from ottla.node.cli.app import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
