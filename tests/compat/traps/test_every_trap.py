"""The list of the traps in the map of the wire protocol, compared with the tests that are named after them.

Names alone would prove little, so each of these tests must assert something, and each error code in the text
of a trap must be in an assertion of a test with its number.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ottla.logstore.words.errors import ErrorCode

TRAPS: Final = range(1, 43)
# Numbers whose API is not served, with the reason. A number leaves this list when its API is served.
NOT_SERVED: Final[dict[int, str]] = {}

# The error codes in the text of each trap that names any.
CODES: Final[dict[int, set[int]]] = {
    3: {35},
    4: {42, 129},
    7: {21},
    11: {3, 17, 100},
    12: {14, 15},
    15: {70, 71},
    17: {1},
    18: {74, 75},
    20: {6},
    21: {23, 24, 25, 26, 79},
    22: {22, 25, 27},
    24: {3, 12, 25},
    25: {68, 69},
    26: {82},
    27: {79, 110},
    28: {42, 50},
    29: {3, 47, 48, 55, 90, 120},
    30: {45},
    32: {3, 42},
    34: {17, 36, 38, 40},
    36: {34},
    38: {16},
    39: {87},
    41: {100},
    42: {7, 19, 20},
}


def trap_tests() -> Iterator[tuple[int, ast.FunctionDef, dict[str, int]]]:
    """Yield the number of each trap with each test of it, and the integers that the module names."""
    for path in sorted(Path(__file__).parents[2].rglob("test_*.py")):
        text = path.read_text()
        if "def test_trap_" not in text:
            continue
        module = ast.parse(text)
        for node in module.body:
            found = re.match(r"test_trap_(\d\d)_", node.name) if isinstance(node, ast.FunctionDef) else None
            if isinstance(node, ast.FunctionDef) and found:
                yield int(found[1]), node, named_integers(module)


def named_integers(module: ast.Module) -> dict[str, int]:
    """Return the integers that a module names at its top, as in `A, B = 1, 2` and `C = 3`."""
    found: dict[str, int] = {}
    for node in module.body:
        if not isinstance(node, ast.Assign):
            continue
        names = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for name, value in zip(names, values, strict=False):
            if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and type(value.value) is int:
                found[name.id] = value.value
    return found


def asserted_integers(test: ast.FunctionDef, named: dict[str, int]) -> Iterator[int]:
    """Yield the integers in assertions and in the cases of `parametrize`: numbers, names or ErrorCodes."""
    asserted = [node for node in ast.walk(test) if isinstance(node, ast.Assert)]
    for node in (one for part in [*asserted, *test.decorator_list] for one in ast.walk(part)):
        match node:
            case ast.Constant(value=int() as value):
                yield value
            case ast.Name(id=name) if name in named:
                yield named[name]
            case ast.Attribute(value=ast.Name(id="ErrorCode"), attr=name):
                yield ErrorCode[name].value


def test_every_trap_has_a_test_or_a_reason() -> None:
    named = {number for number, *_ in trap_tests()}

    assert named | NOT_SERVED.keys() == set(TRAPS)
    assert not named & NOT_SERVED.keys(), "the trap has a test, so it needs no reason"


def test_every_test_of_a_trap_asserts_something() -> None:
    silent = [
        test.name
        for _, test, _ in trap_tests()
        if not any(isinstance(node, ast.Assert) for node in ast.walk(test))
    ]

    assert silent == []


def test_every_error_code_in_the_text_of_a_trap_is_asserted() -> None:
    asserted: dict[int, set[int]] = defaultdict(set)
    for number, test, named in trap_tests():
        asserted[number].update(asserted_integers(test, named))

    missing = {number: codes - asserted[number] for number, codes in CODES.items()}

    assert {number: codes for number, codes in missing.items() if codes} == {}
