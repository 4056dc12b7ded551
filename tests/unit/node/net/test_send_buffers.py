"""The kernel's send buffers hold a whole response for some connections, and less for thousands."""

import pytest

from ottla.node.net.send_buffers import DEFAULT_LIMIT_BYTES, SendBuffers

KAFKA_DEFAULT = 100 * 1024


def test_with_the_defaults_a_response_of_four_partitions_fits_twice_the_size_that_is_set() -> None:
    assert SendBuffers(KAFKA_DEFAULT).take() * 2 > 4 * (1 << 20)


def test_all_wide_buffers_together_are_bounded_and_later_ones_hold_one_partition() -> None:
    buffers = SendBuffers(KAFKA_DEFAULT)
    sizes = [buffers.take() for _ in range(1000)]

    wide, usual = max(sizes), min(sizes)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes.count(wide) * wide <= DEFAULT_LIMIT_BYTES < (sizes.count(wide) + 1) * wide
    assert wide > usual and usual * 2 > 1 << 20


def test_a_wide_buffer_that_is_given_back_goes_to_the_next() -> None:
    buffers = SendBuffers(KAFKA_DEFAULT)
    sizes = [buffers.take() for _ in range(100)]

    for size in sizes:
        buffers.give_back(size)

    assert [buffers.take() for _ in range(100)] == sizes


@pytest.mark.parametrize("size_bytes", [64 << 20, 3_000_000])
def test_a_send_buffer_is_never_smaller_than_the_setting(size_bytes: int) -> None:
    buffers = SendBuffers(size_bytes)

    assert {buffers.take() for _ in range(100)} == {size_bytes}
    buffers.give_back(size_bytes)
    assert {buffers.take() for _ in range(100)} == {size_bytes}


@pytest.mark.parametrize("size_bytes", [-1, 0])
def test_the_kernels_own_size_is_kept(size_bytes: int) -> None:
    assert SendBuffers(size_bytes).take() <= 0
