"""An error that is caught and kept in a response is kept without its frames.

The frames refer to the request and to its responses, which refer to the error: 30,000 rejections made as many
reference cycles, and their garbage collection took 300 ms of the event loop.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError, kept

ROOT: Final = Path(__file__).parents[2]
ON_THE_LOOP: Final = (
    "node/kafka_api",
    "node/coordinators",
    "node/replica",
    "groupcoord",
    "logstore",
    "metadata_raft",
)
# Each keeps one error, until its thread or its connection ends.
MAY_KEEP_FRAMES: Final = {"metadata_raft/raft_thread.py", "metadata_raft/raft_link.py"}


def test_no_caught_error_is_kept_with_its_frames() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in ON_THE_LOOP
        for path in sorted((ROOT / folder).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in MAY_KEEP_FRAMES
        for line in _kept_errors(ast.parse(path.read_text()))
    ]

    assert found == []


def test_kept_errors_are_found() -> None:
    source = """
try:
    ask()
except KafkaError as error:
    answers[key] = error
    answers.append(error)
    raise error
"""

    assert list(_kept_errors(ast.parse(source))) == [5, 6]


def test_a_kept_error_has_no_frames() -> None:
    try:
        try:
            raise ValueError
        except ValueError:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)  # noqa: B904 - the test is about the context
    except KafkaError as error:
        answer = kept(error)

    assert (answer.__traceback__, answer.__context__) == (None, None)


def _kept_errors(module: ast.Module) -> Iterator[int]:
    """Yield the lines that return, store or append the name of an `except`."""
    for handler in ast.walk(module):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
            continue
        for node in ast.walk(handler):
            match node:
                case (
                    ast.Return(value=ast.Name(id=handler.name)) | ast.Assign(value=ast.Name(id=handler.name))
                ):
                    yield node.lineno
                case ast.Call(func=ast.Attribute(attr="append"), args=[ast.Name(id=handler.name)]):
                    yield node.lineno
                case _:
                    pass
