"""The results of commands, as text for people or as JSON for programs: the one door to both.

A command has its result once, as what JSON can say, and says how people read it. With `--output json` it
prints exactly one document on standard output; progress and warnings go to standard error.
"""

import json
from collections.abc import Callable
from typing import Any

Document = Any  # what JSON can say: a dict, or a list of them


def answer(document: Document, text: str | Callable[[], None], *, as_json: bool) -> None:
    """Print the result of a command: the document for programs, or the text (a line, or what prints it)."""
    if as_json:
        print_json(document)
    elif callable(text):
        text()
    else:
        print(text)


def print_json(document: Document) -> None:
    """Print one document on one line, in ASCII, so that a terminal shows control characters escaped."""
    print(json.dumps(document), flush=True)
