"""The index of delayed records against a dict of offsets and times."""

import random
from array import array

import pytest

from ottla.node.share import delayed_index
from ottla.node.share.delayed_index import DelayedIndex
from tests.thorough import some_of


class Model:
    def __init__(self, max_records: int) -> None:
        self.max_records = max_records
        self.due: dict[int, int] = {}
        self.seen = 0

    def add(self, rows: list[tuple[int, int]]) -> int | None:
        for offset, due_ms in rows:
            if offset < self.seen:
                continue
            if len(self.due) >= self.max_records:
                self.seen = offset
                return offset
            self.due[offset] = due_ms
            self.seen = offset + 1
        return None

    def due_at(self, now_ms: int) -> set[int]:
        return {offset for offset, due_ms in self.due.items() if due_ms <= now_ms}

    def run(self, offset: int) -> tuple[int, int] | None:
        first = min((each for each in self.due if each >= offset), default=None)
        if first is None:
            return None
        last = first
        while last + 1 in self.due:
            last += 1
        return first, last


def offsets_of(ranges: list[tuple[int, int]]) -> list[int]:
    return [offset for first, last in ranges for offset in range(first, last + 1)]


def play(seed: int) -> None:
    chance = random.Random(seed)
    max_records = chance.choice([3, 50, 10_000])
    index, model = DelayedIndex(max_records), Model(max_records)
    now_ms, offset, start = 0, chance.choice([0, 2**40]), 0
    jump = chance.choice([1, 3, 10, delayed_index.MAX_SPAN // 3])
    for _ in range(chance.randrange(10, 120)):
        kind = chance.random()
        if kind < 0.4:
            rows = []
            offset = max(offset - chance.choice([0, 0, 3]), 0)
            for _ in range(chance.choice([1, 1, 2, 7, 30])):
                offset += chance.choice([1, 1, 1, chance.randint(1, jump)])
                rows.append((offset, now_ms + chance.choice([1, 5, chance.randint(0, 10**4), 2**62])))
            stopped_at = model.add(rows)
            added = index.add(array("q", [row[0] for row in rows]), array("q", [row[1] for row in rows]))
            assert added == (stopped_at is None)
            if stopped_at is not None:
                assert index.stopped_at == stopped_at and index.is_full
        elif kind < 0.7:
            now_ms += chance.choice([0, 1, 100, 5000])
            limit = chance.choice([1, 3, 10_000])
            due = model.due_at(now_ms)
            taken = offsets_of(index.take_due(now_ms, limit))
            assert taken == sorted(taken) and len(taken) == min(len(due), limit)
            assert due.issuperset(taken)
            for each in taken:
                del model.due[each]
        elif kind < 0.8 and model.due:
            start = max(start, chance.choice([*model.due, min(model.due), max(model.due) + 1]))
            index.drop_before(start)
            model.due = {each: due_ms for each, due_ms in model.due.items() if each >= start}
            model.seen = max(model.seen, start)
        elif model.due:
            one = chance.choice([*model.due])
            assert index.due_at(one) == model.due[one]
            is_due = model.due[one] <= now_ms
            assert index.take_at(one, now_ms) == is_due
            if is_due:
                del model.due[one]
        index.check_invariants()
        assert len(index) == len(model.due)
        assert index.next_ms() == min(model.due.values(), default=None)
        queried = chance.choice([*model.due, 0, offset, offset + 1]) + chance.choice([-1, 0, 1])
        assert index.next_waiting(queried) == model.run(queried)
        assert index.due_at(queried) == model.due.get(queried)
        until = queried + 40
        within = [each for each in range(queried, until + 1) if each in model.due]
        assert offsets_of(index.waiting_within(queried, until)) == within


@pytest.mark.slow
@pytest.mark.parametrize("seed", some_of(range(16), of_each_run=8))
def test_the_index_returns_the_same_as_a_dict(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delayed_index, "BLOCK_RECORDS", 8)
    monkeypatch.setattr(delayed_index, "FEW_RECORDS", 2)
    for number in range(40):
        play(seed * 1000 + number)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0])
def test_the_index_returns_the_same_as_a_dict_with_large_blocks(seed: int) -> None:
    for number in range(20):
        play(seed * 1000 + number)
