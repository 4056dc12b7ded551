"""State machines as JSON, truncated if they are long."""

from typing import Any

import orjson

from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.transactions.transaction_config import TransactionConfig
from ottla.node.rest_api.state_words import CUT, MAX_VALUES, in_words


def test_an_object_of_ours_is_opened_and_any_other_is_named() -> None:
    words: Any = in_words({"config": TransactionConfig(), "state": GroupState.STABLE, "other": object()})

    assert words["state"] == "Stable" and words["other"] == "object"
    assert isinstance(words["config"], dict) and words["config"]


def test_long_values_are_cut_and_secrets_are_not_shown() -> None:
    words: Any = in_words(
        {"bytes": b"\xff" * 100, "text": "x" * 1000, "auth_bytes": b"secret", ("t", 1): {2, 1}}
    )

    assert words["bytes"] == "ff" * 64 + "... 100 bytes" and words["text"].endswith("x" + CUT)
    assert words["auth_bytes"] == "(secret)" and sorted(words["t-1"]) == [1, 2]


def test_large_and_cyclic_values_are_cut() -> None:
    cycle: dict[str, Any] = {}
    cycle["again"] = [cycle] * 3

    for machine in (cycle, [[0] * 1000] * 1000, {number: number for number in range(10**5)}):
        assert orjson.dumps(in_words(machine)).count(b",") <= 2 * MAX_VALUES
