"""The entry point of `ottla` and of `python -m node`."""

import sys

from node.cli.standard_streams import open_closed_streams


def main() -> int:
    """Run the command line, or say what it needs."""
    open_closed_streams()
    try:
        import typer  # noqa: F401
    except ImportError:
        print("ottla: The command line needs the package typer: install ottla[cli].", file=sys.stderr)
        return 1
    from node.cli.app import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
