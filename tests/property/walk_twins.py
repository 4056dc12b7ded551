"""The comparison of the compiled walk with the one in Python."""

import random
from array import array
from collections.abc import Callable
from typing import Any

import ottla.logstore._record_walk as _record_walk
from ottla.logstore import pure_record_walk
from tests.property.mutated_records import (
    BASE_MS,
    LONG_MAX,
    LONG_MIN,
    Case,
    some_case,
    some_header_of_a_batch,
)


def differences(case: Case, chance: random.Random) -> list[str]:
    """Return a description of each call about the records with different results."""
    content, count, base, earliest, latest, needs_key = case
    position = chance.choice([0, 0, 0, len(content), chance.randrange(len(content) + 1)])
    index = chance.choice([0, 0, 0, 1, chance.randrange(10)])
    max_records = chance.choice([count, count, 0, 1, 3, -1, 2**62])
    max_bytes = chance.choice([2**62, 2**62, len(content), 0, 10, -1])
    ends = (base, earliest, latest)
    questions: list[tuple[str, tuple[Any, ...]]] = [
        ("walk", (0, 0, count, count, 2**62, *ends, needs_key)),
        ("walk", (position, index, count, max_records, max_bytes, *ends, needs_key)),
        (
            "is_plain",
            (0, count, base, chance.choice([base, min(base + 5, LONG_MAX), earliest]), earliest, latest),
        ),
        ("find", (0, 0, count, count, base, chance.choice([LONG_MIN, base, 0]), chance.choice([0, 0, 1, 3]))),
        ("find", (position, index, count, max_records, base, earliest, 0)),
        ("spans", (0, 0, count, count)),
        ("spans", (position, index, count, max_records)),
        ("due_times", (0, 0, count, count, base, False, 0, BASE_MS, BASE_MS + 10**6, chance.random() < 0.5)),
        ("due_times", (position, index, count, max_records, base, *_some_rules(chance))),
    ]
    return [
        f"{name}{(content, *arguments)}: {answers}"
        for name, arguments in questions
        if (answers := _both(name, content, arguments)) is not None
    ]


def header_differences(chance: random.Random) -> list[str]:
    """Return a description of different results for a header that is plain, or nearly so."""
    batch = some_header_of_a_batch(chance)
    window = chance.choice([(LONG_MIN, LONG_MAX), (BASE_MS, BASE_MS), (0, BASE_MS + 1)])
    arguments = (chance.choice([10**6, len(batch), len(batch) - 1]), *window, chance.choice([4, 4, 3, 0]))
    answers = _both("plain_fields", batch, arguments)
    return [] if answers is None else [f"plain_fields{(batch, *arguments)}: {answers}"]


def places_differ(case: Case, chance: random.Random) -> list[str]:
    """Return a description of different results for the positions of the records' parts."""
    content, count, rows = case.content, min(case.count, 1_000), 1_002
    row = chance.choice([0, 0, 2])
    start, end = chance.choice([0, 0, 0, 1]), len(content) - chance.choice([0, 0, 0, 1])
    if start > end:
        return []
    answers = []
    for walk in (_record_walk.places, pure_record_walk.places):
        into = array("q", bytes(8 * 7 * rows))
        problem, index = walk(bytearray(content), start, end, count, memoryview(into), row, rows)
        found = [into[column * rows + row : column * rows + row + index].tolist() for column in range(7)]
        answers.append((problem, index, found))
    return [] if answers[0] == answers[1] else [f"places{(content, start, end, count, row)}: {answers}"]


def _some_rules(chance: random.Random) -> tuple[bool, int, int, int, bool]:
    delay = chance.choice([0, 0, 1, 10**6, LONG_MAX])
    now, latest = chance.choice([(LONG_MIN, LONG_MAX), (BASE_MS, BASE_MS + 5), (LONG_MAX, LONG_MAX), (0, -1)])
    return chance.random() < 0.5, delay, now, latest, chance.random() < 0.5


def _both(name: str, content: bytes, arguments: tuple[Any, ...]) -> str | None:
    ours: Callable[..., Any] = getattr(_record_walk, name)
    reference: Callable[..., Any] = getattr(pure_record_walk, name)
    # The buffer has exactly this size, so that a sanitizer detects a read beyond the end.
    compiled, pure = ours(bytearray(content), *arguments), reference(content, *arguments)
    return None if compiled == pure else f"compiled {compiled}, pure {pure}"


def fuzz(seed: int, rounds: int) -> tuple[int, list[str]]:
    """Return the number of valid cases, and the differences of the two walks."""
    chance = random.Random(seed)
    sound = 0
    for _ in range(rounds):
        case = some_case(chance)
        if found := differences(case, chance) + header_differences(chance) + places_differ(case, chance):
            return sound, found
        answer = pure_record_walk.walk(case.content, 0, 0, case.count, case.count, 2**62, *case[2:])
        sound += answer[0] == 0 and answer[2] == len(case.content)
    return sound, []
