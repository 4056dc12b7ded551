"""The results of commands, as text for people or as JSON for programs: the one door to both.

With `--output json` a command prints exactly one document on standard output, also if an error ends it after
some of its work; progress, warnings and errors go to standard error.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType

from ottla.node.cli.failure import EXIT_FAILURE

# The JSON of an answer: an object, or a list of them.
Document = Mapping[str, object] | Sequence[Mapping[str, object]]


def answer(document: Document, line: str, *, as_json: bool) -> None:
    """Print the result of a command, which is one thing: the document for programs, the line for people."""
    if as_json:
        print_json(document)
    else:
        print(line)


def print_json(document: Document) -> None:
    """Print one document on one line, in ASCII, so that a terminal shows control characters escaped."""
    print(json.dumps(document), flush=True)


class Results:
    """The result of a command that does the same to several things: a line each, or one list of objects.

    People read each line as soon as it is true; the list is printed at the end, and also after an error.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.exit_code = 0
        self._as_json = as_json
        self._documents: list[Mapping[str, object]] = []

    def add(self, document: Mapping[str, object], line: str) -> None:
        """Tell about one of them."""
        if self._as_json:
            self._documents.append(document)
        else:
            print(line)

    def fail(self, document: Mapping[str, object], sentence: str) -> None:
        """Tell about one that was not done, for a reason; the exit code becomes 1."""
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
