"""The kernel's send buffers hold a whole response for some connections, and less for thousands."""

import pytest

from ottla.node.net.send_buffers import DEFAULT_LIMIT_BYTES, SendBuffers

KAFKAS_DEFAULT = 100 * 1024


def test_with_the_defaults_the_answer_of_four_partitions_fits_twice_what_the_kernel_is_told() -> None:
    assert SendBuffers(KAFKAS_DEFAULT).take() * 2 > 4 * (1 << 20)


def test_all_wide_ones_together_are_bounded_and_later_ones_hold_one_partition() -> None:
    buffers = SendBuffers(KAFKAS_DEFAULT)
    sizes = [buffers.take() for _ in range(1000)]

    wide, usual = max(sizes), min(sizes)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes.count(wide) * wide <= DEFAULT_LIMIT_BYTES < (sizes.count(wide) + 1) * wide
    assert wide > usual and usual * 2 > 1 << 20


def test_what_is_given_back_is_had_by_the_next() -> None:
    buffers = SendBuffers(KAFKAS_DEFAULT)
    sizes = [buffers.take() for _ in range(100)]

    for size in sizes:
        buffers.give_back(size)

    assert [buffers.take() for _ in range(100)] == sizes


@pytest.mark.parametrize("asked", [64 << 20, 3_000_000])
def test_what_was_asked_for_is_the_least(asked: int) -> None:
    buffers = SendBuffers(asked)

    assert {buffers.take() for _ in range(100)} == {asked}
    buffers.give_back(asked)
    assert {buffers.take() for _ in range(100)} == {asked}


@pytest.mark.parametrize("asked", [-1, 0])
def test_the_kernels_own_is_left_alone(asked: int) -> None:
    assert SendBuffers(asked).take() <= 0
