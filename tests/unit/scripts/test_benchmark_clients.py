"""The clients of `scripts/bench` never wait for records that will not come, as that would distort figures."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[3] / "scripts"))

from benchmarks import clients

RECORDS = 3 * clients.CONSUME_AT_ONCE + 7


class EagerConsumer:
    """A consumer that has some records, and waits when more are requested than it has."""

    left = RECORDS

    def __init__(self, settings: dict[str, Any]) -> None: ...

    def list_topics(self, topic: str, timeout_s: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions={0: None})})

    def assign(self, partitions: list[Any]) -> None: ...

    def consume(self, count: int, timeout_s: float) -> list[object]:
        assert count <= self.left, "here it would wait"
        self.left -= count
        return [object()] * count

    def close(self) -> None: ...


def test_a_reader_requests_only_the_records_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "Consumer", EagerConsumer)

    done = clients.consume("localhost:1", "t", records=RECORDS, record_bytes=10, seconds=60)

    assert (done.records, done.payload_bytes) == (RECORDS, 10 * RECORDS)
