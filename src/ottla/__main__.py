"""The entry point of the command `ottla`, which `python -m ottla` is as well."""

import sys

from ottla.node.cli.standard_streams import open_closed_streams

# Libraries of ours load these where they are installed, for what a node never asks: encryption by pysyncobj,
# whose links are our own, and compression of metrics. They take 10 MB of each node.
UNUSED_BY_A_NODE = ("cryptography", "snappy")


def main() -> int:
    """Run the command line."""
    open_closed_streams()
    if sys.argv[1:2] == ["start"]:
        for name in UNUSED_BY_A_NODE:
            sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # not to be found
    from ottla.node.cli.app import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
