"""The history of a node: samples in slots of the wall clock, rates of counters, bounded memory."""

from math import isnan

import pytest

from ottla.node.counters.history import (
    COLUMNS,
    LEFT_OUT_SHARE,
    QUIET_SLOTS,
    RING_BYTES,
    SLOTS,
    History,
    Kind,
    packed,
    unpacked,
)

EVERY_MS = 10_000
TOPIC_BYTES = RING_BYTES + 4 * SLOTS * len(COLUMNS[Kind.TOPIC])


def history(topics: int = 100) -> History:
    """Return a history with memory for this number of topics."""
    return History(
        limit_bytes=topics * TOPIC_BYTES * LEFT_OUT_SHARE // (LEFT_OUT_SHARE - 1) + 1, interval_ms=EVERY_MS
    )


def sample(kept: History, slot: int, topics: dict[str, tuple[int, int, int, int]]) -> None:
    """Take the sample of a slot, with these values of topics."""
    assert kept.begin(slot * EVERY_MS + 3, slot * 10.0)
    for name, values in topics.items():
        kept.note(Kind.TOPIC, name, values)


def rows(kept: History, name: str) -> list[tuple[float | None, ...]]:
    samples = kept.read(Kind.TOPIC, name)
    values = [None if isnan(one) else one for one in samples.values]
    width = len(samples.columns)
    return [tuple(values[at : at + width]) for at in range(0, len(values), width)]


def test_a_counter_has_a_rate_from_its_second_sample_on_and_a_size_is_kept_as_it_is() -> None:
    kept = history()

    sample(kept, 7, {"t": (1000, 0, 10, 500)})
    sample(kept, 8, {"t": (3000, 50, 10, 700)})

    assert rows(kept, "t") == [(None, None, None, 500), (200, 5, 0, 700)]
    samples = kept.read(Kind.TOPIC, "t")
    assert samples.columns == ["bytes_in", "bytes_out", "messages_in", "size_bytes"]
    assert (samples.begin_ms, samples.end_ms) == (70_000, 80_000)


def test_a_rate_is_per_elapsed_time_and_not_per_slot() -> None:
    kept = history()
    kept.begin(0, 0.0)
    kept.begin(EVERY_MS, 0.0)
    kept.note(Kind.TOPIC, "t", (0, 0, 0, 0))
    kept.begin(2 * EVERY_MS, 12.5)  # the loop was late
    kept.note(Kind.TOPIC, "t", (100, 0, 0, 0))

    assert rows(kept, "t")[-1][0] == 8


def test_a_few_missed_slots_have_the_rate_of_the_sample_after_them_and_more_are_a_gap() -> None:
    kept = history()
    sample(kept, 1, {"t": (0, 0, 0, 1)})
    sample(kept, 3, {"t": (300, 0, 0, 2)})

    assert rows(kept, "t") == [(None, None, None, 1), (15, 0, 0, 2), (15, 0, 0, 2)]
    sample(kept, 8, {"t": (400, 0, 0, 3)})
    assert rows(kept, "t")[3:] == [(None,) * 4] * 4 + [(2, 0, 0, 3)]


def test_samples_end_with_the_last_one_until_one_is_missing() -> None:
    kept = history()
    sample(kept, 1, {"t": (0, 0, 0, 1)})

    sample(kept, 2, {})  # the sample has begun, and the topic is not in it yet
    assert len(rows(kept, "t")) == 1 and kept.read(Kind.TOPIC, "t").end_ms == EVERY_MS
    sample(kept, 3, {})
    assert rows(kept, "t")[1:] == [(None,) * 4] * 2 and kept.read(Kind.TOPIC, "t").end_ms == 3 * EVERY_MS


def test_the_samples_of_the_last_hour_are_kept() -> None:
    kept = history()
    for slot in range(1, SLOTS + 50):
        sample(kept, slot, {"t": (slot * 10, 0, 0, slot)})

    found = rows(kept, "t")
    assert len(found) == SLOTS and [one[3] for one in found] == list(range(50, SLOTS + 50))
    assert {one[0] for one in found} == {1}

    sample(kept, 3 * SLOTS, {})
    assert rows(kept, "t") == []
    sample(kept, 3 * SLOTS + 1, {"t": (0, 0, 0, 9)})
    assert [one for one in rows(kept, "t") if one[3] is not None] == [(0, 0, 0, 9)]


def test_a_slot_has_one_sample_and_a_clock_that_is_set_back_clears_the_history() -> None:
    kept = history()
    sample(kept, 9, {"t": (0, 0, 0, 1)})

    assert not kept.begin(9 * EVERY_MS + 5000, 95.0)
    sample(kept, 5, {})

    assert rows(kept, "t") == [] and kept.used_bytes == 0


def test_a_topic_that_is_deleted_and_created_again_has_no_negative_rate() -> None:
    kept = history()
    sample(kept, 1, {"t": (9000, 900, 9, 9)})
    sample(kept, 2, {"t": (10, 0, 1, 1)})

    assert rows(kept, "t")[-1] == (0, 0, 0, 1)


def test_a_changing_topic_replaces_a_quiet_one() -> None:
    kept = history(topics=3)
    quiet = {"a": (1, 0, 0, 0), "b": (1, 0, 0, 0)}
    for slot in range(1, QUIET_SLOTS + 3):
        sample(kept, slot, {**quiet, "busy": (slot, 0, 0, 0), "late": (slot, 0, 0, 0), "idle": (5, 0, 0, 0)})
        assert kept.used_bytes <= kept.limit_bytes

    assert rows(kept, "late") and rows(kept, "busy") and rows(kept, "b")
    assert rows(kept, "a") == [] and rows(kept, "idle") == []


def test_a_changing_topic_is_not_replaced() -> None:
    kept = history(topics=2)
    for slot in range(1, 3 * QUIET_SLOTS):
        sample(kept, slot, dict.fromkeys(("a", "b", "c"), (slot, 0, 0, 0)))

    assert len(rows(kept, "a")) == len(rows(kept, "b")) == 3 * QUIET_SLOTS - 1
    assert rows(kept, "c") == []


def test_any_number_of_topics_stays_within_the_memory() -> None:
    kept = history(topics=10)
    for slot in range(1, 2 * QUIET_SLOTS):
        sample(kept, slot, {f"topic-{one}": (slot * (one % 7), 0, 0, one) for one in range(500)})

        assert kept.used_bytes <= kept.limit_bytes


def test_the_node_itself_is_never_left_out() -> None:
    still = [0.0] * len(COLUMNS[Kind.NODE])
    kept = History(limit_bytes=100_000, interval_ms=EVERY_MS)
    for slot in range(1, 3 * QUIET_SLOTS):
        assert kept.begin(slot * EVERY_MS, slot * 10.0)
        kept.note(Kind.NODE, "", still)
        for one in range(50):
            kept.note(Kind.TOPIC, f"topic-{one}", (slot, 0, 0, 0))

    assert len(kept.read(Kind.NODE, "").values) == len(still) * (3 * QUIET_SLOTS - 1)


@pytest.mark.parametrize("tail", [b"", b"\x01", b"\x01\x02\x03"])
def test_values_are_read_as_they_were_packed(tail: bytes) -> None:
    kept = history()
    sample(kept, 1, {"t": (0, 0, 0, 7)})

    content = packed(kept.read(Kind.TOPIC, "t").values)

    assert len(content) == 16 and content[12:] == b"\x00\x00\xe0\x40"
    assert unpacked(content + tail)[3] == 7 and len(unpacked(content + tail)) == 4
