"""Prints the results of commands, as text for people or as JSON for programs: no other module prints JSON.

With `--output json` a command prints exactly one document on standard output, even if an error ends it after
some of its work; progress, warnings and errors go to standard error.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType

from ottla.node.cli.failure import EXIT_FAILURE

# The JSON of a result: an object, or a list of objects.
Document = Mapping[str, object] | Sequence[Mapping[str, object]]


def answer(document: Document, line: str, *, as_json: bool) -> None:
    """Print the single result of a command: the document for programs, or the line for people."""
    if as_json:
        print_json(document)
    else:
        print(line)


def print_json(document: Document) -> None:
    """Print one document on one line, in ASCII, so that a terminal shows control characters escaped."""
    print(json.dumps(document), flush=True)


def print_bytes(content: bytes | bytearray) -> None:
    """Print bytes as they are; BrokenPipeError as soon as the reader is gone.

    It does not use sys.stdout.buffer, which was seen to lose the error when the reader ended during a long
    write; a command with nothing more to print then waited for ever.
    """
    sys.stdout.flush()
    view = memoryview(content)
    while view:
        view = view[os.write(sys.stdout.fileno(), view) :]


class Results:
    """The results of a command that does the same to several things: a line each, or one list of objects.

    Each line is printed at once; the list is printed at the end, and also after an error.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.exit_code = 0
        self._as_json = as_json
        self._documents: list[Mapping[str, object]] = []

    def add(self, document: Mapping[str, object], line: str) -> None:
        """Report a success."""
        if self._as_json:
            self._documents.append(document)
        else:
            print(line)

    def fail(self, document: Mapping[str, object], sentence: str) -> None:
        """Report a failure with its reason; the exit code becomes 1."""
        self.exit_code = EXIT_FAILURE
        if self._as_json:
            self._documents.append({**document, "error": sentence})
        else:
            print(f"ottla: {sentence}", file=sys.stderr)

    def __enter__(self) -> "Results":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._as_json:
            print_json(self._documents)
