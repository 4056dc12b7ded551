"""The list of the traps in the map of the wire protocol, held against the tests that are named after them."""

import re
from pathlib import Path

TRAPS = range(1, 43)
# Numbers whose API is not served, with the reason. A number leaves this list when its API arrives.
NOT_SERVED: dict[int, str] = {}


def test_every_trap_has_a_test_or_a_reason() -> None:
    named: set[int] = set()
    for path in sorted(Path(__file__).parents[2].rglob("test_*.py")):
        named |= {
            int(number) for number in re.findall(r"^def test_trap_(\d\d)_", path.read_text(), flags=re.M)
        }

    assert named | NOT_SERVED.keys() == set(TRAPS)
    assert not named & NOT_SERVED.keys(), "tested, so the reason is gone"
