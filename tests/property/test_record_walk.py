"""The compiled walk equals the one in Python, which rejects the records that `iterate_records` rejects."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore import pure_record_walk
from ottla.logstore.compaction import record_spans
from ottla.logstore.compression import Compression
from ottla.logstore.opened_records import OpenedRecords
from ottla.logstore.record import iterate_records, seal_batch
from ottla.logstore.record_batch import BatchHeader
from ottla.logstore.words.errors import KafkaError
from tests.property.mutated_records import LONG_MAX, LONG_MIN, Case, some_case, some_header_of_a_batch
from tests.thorough import some_of

ROOT = Path(__file__).parents[2]
FUZZ = ROOT / "scripts" / "fuzz-walk"
NO_COMPILER = 3


def compiled_twins() -> Any:
    why = "the walk was not compiled"
    return pytest.importorskip("tests.property.walk_twins", reason=why, exc_type=ImportError)


def read(case: Case) -> tuple[int, list[bool], list[int]] | None:
    """Return the number of records, which of them have a key, and their timestamps; None for an error."""
    header = BatchHeader(
        0, 0, 0, 2, 0, 0, max(case.count - 1, 0), case.base_timestamp, 0, -1, -1, -1, case.count
    )
    try:
        records = list(iterate_records(seal_batch(header, case.content)))
    except KafkaError:
        return None
    if [one.offset for one in records] != [*range(len(records))]:
        return None
    return len(records), [one.key is not None for one in records], [one.timestamp for one in records]


@pytest.mark.slow
@pytest.mark.parametrize("seed", some_of(range(8), of_each_run=2))
def test_the_python_walk_rejects_the_same_records_as_the_reader(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(2_000):
        case = some_case(chance)
        content, count, base = case[:3]
        found = read(case)
        walked = pure_record_walk.walk(
            content, 0, 0, count, count, len(content) + 1, base, LONG_MIN, LONG_MAX, False
        )
        is_whole = walked[0] == pure_record_walk.VALID and walked[2] == len(content)
        assert is_whole == (found is not None), case
        if found is not None and found[0]:
            assert walked[1] == found[0] and walked[3] == max(found[2]), case
            needs_key = pure_record_walk.walk(
                content, 0, 0, count, count, len(content) + 1, base, LONG_MIN, LONG_MAX, True
            )
            assert (needs_key[0] == pure_record_walk.VALID) == all(found[1]), case


@pytest.mark.slow
@pytest.mark.parametrize("seed", some_of(range(8), of_each_run=1))
def test_a_walk_with_pauses_gives_the_same_result(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(1_000):
        content, count, base, earliest, latest, needs_key = some_case(chance)
        rules = (base, earliest, latest, needs_key)
        whole = pure_record_walk.walk(content, 0, 0, count, count, len(content) + 1, *rules)
        position = index = problem = 0
        largest = LONG_MIN
        for _ in range(20_000):
            step = pure_record_walk.walk(
                content, position, index, count, 1, chance.choice([1, 9, 900]), *rules
            )
            problem, index, position, found = step
            largest = max(largest, found)
            if problem or index >= count:
                break
        assert (problem, index, position) == whole[:3]
        assert problem or largest == whole[3]


@pytest.mark.slow
@pytest.mark.parametrize("seed", some_of(range(100, 108), of_each_run=1))
def test_both_walks_return_the_same(seed: int) -> None:
    twins = compiled_twins()

    assert twins.fuzz(seed, 2_000)[1] == []


@pytest.mark.slow
@given(st.binary(max_size=60), st.integers(0, 9), st.integers(0, 2**32))
def test_both_walks_return_the_same_for_any_bytes(content: bytes, count: int, seed: int) -> None:
    twins = compiled_twins()
    case = Case(content, count, 0, LONG_MIN, LONG_MAX, False)

    assert twins.differences(case, random.Random(seed)) == []


@pytest.mark.thorough
def test_no_byte_beyond_the_buffer_is_read() -> None:
    command = [sys.executable, str(FUZZ), "--rounds", "20000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode == NO_COMPILER:
        pytest.skip(done.stderr.strip())

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ok: 20000 batches")


def test_the_cases_have_headers_of_all_kinds() -> None:
    chance = random.Random(0)
    answers = [
        pure_record_walk.plain_fields(some_header_of_a_batch(chance), 10**6, LONG_MIN, LONG_MAX, 4)
        for _ in range(2_000)
    ]

    assert 500 < sum(answer is not None for answer in answers) < 1_500


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0])
def test_spans_are_those_of_the_records(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(500):
        case = some_case(chance)
        header = BatchHeader(0, 0, 0, 2, 0, 0, max(case.count - 1, 0), 0, 0, -1, -1, -1, case.count)
        try:
            records = list(iterate_records(seal_batch(header, case.content)))
        except KafkaError:
            continue
        found = [
            span
            for _, spans in record_spans(OpenedRecords(Compression.NONE, case.content), case.count)
            for span in spans
        ]
        assert [(one.offset_delta, one.key, one.has_value) for one in found] == [
            (one.offset, one.key, one.value is not None) for one in records
        ]
