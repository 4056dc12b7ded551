"""Floods of log lines that clients cause, and the few that are logged."""

import logging

import pytest

from ottla.node.net import client_lines
from ottla.node.net.client_lines import MAX_IN_ALL, MAX_OF_ADDRESS, WINDOW_S, ClientLines, log_all_left_out

log = logging.getLogger("ottla.node.net.some_lines")


class Flood:
    """Lines logged under a clock that stands still."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.lines = ClientLines(log, lambda: self.now_s)

    def log_from(self, address: str, times: int = 1) -> None:
        for number in range(times):
            self.lines.log(logging.WARNING, address, "%s: line %d", address, number)


@pytest.fixture
def flood(caplog: pytest.LogCaptureFixture) -> Flood:
    caplog.set_level(logging.INFO)
    return Flood()


def test_a_flood_from_one_address_is_logged_in_few_lines_and_a_count(
    flood: Flood, caplog: pytest.LogCaptureFixture
) -> None:
    flood.log_from("10.0.0.1", 10_000)
    assert len(caplog.messages) == MAX_OF_ADDRESS
    flood.lines.log_left_out()
    assert len(caplog.messages) == MAX_OF_ADDRESS
    flood.now_s += WINDOW_S
    log_all_left_out()
    log_all_left_out()

    assert caplog.messages[MAX_OF_ADDRESS:] == [
        f"{10_000 - MAX_OF_ADDRESS} more lines like those above, caused by 10.0.0.1, were left out."
    ]


def test_the_count_is_logged_with_the_next_line_at_the_latest(
    flood: Flood, caplog: pytest.LogCaptureFixture
) -> None:
    flood.log_from("10.0.0.1", MAX_OF_ADDRESS + 3)
    flood.now_s += WINDOW_S
    flood.log_from("10.0.0.2")

    assert caplog.messages[-2].startswith("3 more lines") and caplog.messages[-1] == "10.0.0.2: line 0"


def test_a_flood_of_several_addresses_leaves_lines_for_others(
    flood: Flood, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(10):
        flood.log_from(f"10.0.0.{number}", 1_000)
    before = len(caplog.messages)
    flood.log_from("192.168.0.1")

    assert before < MAX_IN_ALL and caplog.messages[-1] == "192.168.0.1: line 0"


def test_the_lines_of_all_addresses_together_are_limited(
    flood: Flood, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(5_000):
        flood.log_from(f"10.0.{number // 250}.{number % 250}")
    flood.now_s += WINDOW_S
    flood.lines.log_left_out()
    counts = caplog.messages[MAX_IN_ALL:]

    assert len(counts) == client_lines.MAX_COUNTED_ADDRESSES + 1
    assert sum(int(line.split()[0]) for line in counts) == 5_000 - MAX_IN_ALL
    assert "several addresses" in counts[-1]


def test_the_addresses_of_one_host_are_one(flood: Flood, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(1_000):
        flood.log_from(f"2001:db8::{number:x}")

    assert len(caplog.messages) == MAX_OF_ADDRESS


def test_an_error_is_written_with_its_traceback(flood: Flood, caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("a fault")
    except ValueError as error:
        flood.lines.log(logging.ERROR, "10.0.0.1", "It failed.", error=error)

    [logged] = caplog.records
    assert logged.exc_info is not None and "a fault" in str(logged.exc_info[1])
