"""Fetch sessions over topics that are deleted and created again, at Ottla and at Apache Kafka 4.3.1."""

from collections.abc import Sequence
from typing import Any, Self

import pytest

from tests.compat.differential.test_group_sessions import unique
from tests.compat.servers import Server
from tests.compat.wire_client import WireClient, eventually, only

pytestmark = [pytest.mark.slow, pytest.mark.java]
UNKNOWN_TOPIC_OR_PARTITION = 3
FIRST_VERSION_WITH_IDS = 13
NONE = bytes(16)


class Reader:
    """A client and the results of its fetches: if there is a session, and the errors of the partitions."""

    def __init__(self, server: Server, version: int) -> None:
        self._client = WireClient(server.bootstrap)
        self._version = version
        self._name = unique(f"sessions-{version}")
        self._ids: list[bytes] = []  # of the topic, one for each creation
        self.answers: list[tuple[bool, list[tuple[int, Any]]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def create(self) -> None:
        wanted = {"name": self._name, "num_partitions": 1, "replication_factor": 1}
        made = self._client.call("create_topics", 7, topics=[wanted], timeout_ms=10_000)
        assert only(made.topics).error_code == 0, made
        self._ids.append(bytes(only(made.topics).topic_id))
        self._until(lambda code: code == 0)

    def delete(self) -> None:
        gone = self._client.call("delete_topics", 5, topic_names=[self._name], timeout_ms=10_000)
        assert only(gone.responses).error_code == 0, gone
        self._until(lambda code: code == UNKNOWN_TOPIC_OR_PARTITION)

    def _until(self, is_reached: Any) -> None:
        """Wait until a fetch from the topic returns the expected error code."""
        eventually(
            lambda: self._fetch(12, 0, -1, [{"topic": self._name, "partitions": [_FROM_THE_START]}]),
            lambda found: is_reached(only(only(found.responses).partitions).error_code),
        )

    def read(self, session_id: int, epoch: int, *made: int, forgets: Sequence[int] = ()) -> int:
        """Fetch from these creations of the topic (0 is the first one), and return the session id."""
        found = self._fetch(
            self._version,
            session_id,
            epoch,
            [{**self._named(each), "partitions": [_FROM_THE_START]} for each in made],
            [{**self._named(each), "partitions": [0]} for each in forgets],
        )
        assert found.error_code == 0
        names = ["", *self._ids] if self._version >= FIRST_VERSION_WITH_IDS else [self._name]
        self.answers.append(
            (
                found.session_id != 0,
                [
                    (
                        names.index(bytes(topic.topic_id) if topic.topic_id != NONE else topic.topic),
                        [
                            (one.error_code, one.high_watermark, one.log_start_offset, one.records)
                            for one in topic.partitions
                        ],
                    )
                    for topic in found.responses
                ],
            )
        )
        return int(found.session_id)

    def _named(self, made: int) -> dict[str, Any]:
        if self._version < FIRST_VERSION_WITH_IDS:
            return {"topic": self._name}
        return {"topic_id": self._ids[made]}

    def _fetch(
        self, version: int, session_id: int, epoch: int, topics: Sequence[Any], forgotten: Sequence[Any] = ()
    ) -> Any:
        return self._client.call(
            "fetch",
            version,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=10_000,
            isolation_level=0,
            session_id=session_id,
            session_epoch=epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
            rack_id="",
        )


_FROM_THE_START = {
    "partition": 0,
    "current_leader_epoch": -1,
    "fetch_offset": 0,
    "last_fetched_epoch": -1,
    "log_start_offset": -1,
    "partition_max_bytes": 10_000,
}


def play(reader: Reader) -> list[tuple[bool, list[tuple[int, Any]]]]:
    reader.create()
    session = reader.read(0, 0, 0)
    reader.read(session, 1)
    reader.delete()
    reader.read(session, 2)
    reader.read(session, 3, 0)
    reader.read(0, -1, 0)
    late = reader.read(0, 0, 0)
    reader.read(late, 1)
    reader.create()
    reader.read(session, 4)
    reader.read(session, 5, 0)
    reader.read(session, 6, 1)
    reader.read(session, 7)
    reader.read(late, 2)
    reader.read(0, -1, 0)
    reader.read(session, 8, forgets=[0])
    reader.read(late, 3, forgets=[0])
    return reader.answers


@pytest.mark.parametrize("version", [12, 13, 17])
def test_both_answer_the_same_about_a_topic_that_was_created_again(
    ottla: Server, reference: Server, version: int
) -> None:
    with Reader(ottla, version) as of_ottla, Reader(reference, version) as of_reference:
        assert play(of_ottla) == play(of_reference)
