"""The cleaner's key map against a dict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.offset_map import NO_OFFSET, OffsetMap


@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**62)), max_size=60))
def test_the_map_returns_the_same_offsets_as_a_dict(puts: list[tuple[bytes, int]]) -> None:
    model: dict[bytes, int] = {}
    offsets = OffsetMap(buffer_bytes=24 * 100, load_factor=0.9)

    for key, offset in puts:
        assert offsets.put(key, offset)
        model[key] = offset

    assert offsets.size == len(model)
    assert all(offsets.get(key) == offset for key, offset in model.items())
    assert offsets.get(b"never put") == NO_OFFSET


def test_a_full_map_accepts_no_further_key() -> None:
    offsets = OffsetMap(buffer_bytes=24 * 10, load_factor=0.5)
    keys = [b"%d" % number for number in range(100)]

    taken = [key for key in keys if offsets.put(key, 1)]

    assert len(taken) == offsets.capacity == offsets.size == 3
    assert not offsets.put(taken[0], 2) and offsets.get(taken[0]) == 1
    assert not offsets.put(b"new", 1) and offsets.get(b"new") == NO_OFFSET


def test_a_small_log_gets_a_small_map() -> None:
    assert OffsetMap(buffer_bytes=2**27, load_factor=0.9, expected_keys=100).capacity in range(100, 150)


@pytest.mark.parametrize("buffer_bytes", [-1, 0, 24, 24 * 100, 2**30])
@pytest.mark.parametrize("load_factor", [-1e308, -1.0, 0.0, 1e-300, 0.9, 1.0, 1.5, 1e308])
def test_with_any_setting_the_map_has_room_and_an_empty_slot(buffer_bytes: int, load_factor: float) -> None:
    offsets = OffsetMap(buffer_bytes=buffer_bytes, load_factor=load_factor, expected_keys=20)
    keys = [b"%d" % number for number in range(3000)]

    taken = [key for key in keys if offsets.put(key, 7)]

    assert len(taken) == offsets.capacity >= 1
    assert offsets.get(b"never put") == NO_OFFSET  # the search ends
