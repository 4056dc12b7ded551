"""The limits of the time that a request which changes metadata may wait for the controller."""

import pytest

from ottla.node.kafka_api.request_timeout import command_timeout_ms


@pytest.mark.parametrize(
    ("named_ms", "given_ms"),
    [(-1, 1_000), (0, 1_000), (1, 1), (900, 900), (30_000, 30_000), (2**31 - 1, 60_000)],
)
def test_a_command_takes_no_longer_than_its_client_waits(named_ms: int, given_ms: int) -> None:
    assert command_timeout_ms(named_ms) == given_ms
