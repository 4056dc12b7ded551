"""A producer of the old protocol (transactions v1), as raw requests; it waits where a client waits."""

import time
from collections.abc import Callable
from typing import Any

from ottla.logstore.record import build_batch
from tests.compat.wire_client import WireClient, eventually, only

LOADING, CONCURRENT = {14, 15, 16}, {51}


class Producer:
    """A producer of the old protocol (transactions v1), as raw requests."""

    def __init__(self, client: WireClient, transactional_id: str, *, topic: str, group: str) -> None:
        self.client, self.topic, self.group = client, topic, group
        self.transactional_id = transactional_id
        client.call("find_coordinator", 4, key_type=1, coordinator_keys=[transactional_id])
        self.producer_id, self.epoch = -1, -1
        self.init()

    def init(self) -> None:
        answer = eventually(
            lambda: self.client.call(
                "init_producer_id",
                5,
                transactional_id=self.transactional_id,
                transaction_timeout_ms=60_000,
                producer_id=-1,
                producer_epoch=-1,
            ),
            lambda answer: answer.error_code not in LOADING | CONCURRENT,
        )
        assert answer.error_code == 0, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def add_offsets(self) -> int:
        request = {**self.identity, "group_id": self.group}
        return self._until_free(lambda: self.client.call("add_offsets_to_txn", 3, **request))

    def add_partition(self, partition: int = 0) -> int:
        topics = [{"name": self.topic, "partitions": [partition]}]
        named = {f"v3_and_below_{name}": value for name, value in self.identity.items()}
        answer = eventually(
            lambda: self.client.call("add_partitions_to_txn", 3, v3_and_below_topics=topics, **named),
            lambda answer: _added(answer) not in CONCURRENT,
        )
        return _added(answer)

    def end(self, committed: bool) -> int:
        code = self.client.call("end_txn", 3, committed=committed, **self.identity).error_code
        eventually(self.state, lambda state: not state.startswith("Prepare"))
        return int(code)

    def state(self) -> str:
        answer = self.client.call("describe_transactions", 0, transactional_ids=[self.transactional_id])
        return str(only(answer.transaction_states).transaction_state)

    def send(self, sequence: int, partition: int = 0) -> int:
        batch = build_batch(
            [(b"k", b"v", int(time.time() * 1000), ())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        answer = self.client.call(
            "produce",
            9,
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=5000,
            topic_data=[{"name": self.topic, "partition_data": [{"index": partition, "records": batch}]}],
        )
        return int(only(only(answer.responses).partition_responses).error_code)

    def commit(self, version: int, offset: int = 5, **fields: Any) -> list[int]:
        """Commit an offset for partitions 0 and 7, and return the codes of TxnOffsetCommit."""
        request = {**self.identity, "group_id": self.group, **fields}
        answer = self.client.call(
            "txn_offset_commit",
            version,
            topics=[
                {
                    "name": self.topic,
                    "partitions": [
                        {"partition_index": index, "committed_offset": offset, "committed_metadata": ""}
                        for index in (0, 7)
                    ],
                }
            ],
            **request,
        )
        partitions = sorted(only(answer.topics).partitions, key=lambda one: one.partition_index)
        return [int(one.error_code) for one in partitions]

    def _until_free(self, ask: Callable[[], Any]) -> int:
        return int(eventually(ask, lambda answer: answer.error_code not in CONCURRENT).error_code)


def _added(answer: Any) -> int:
    return int(only(only(answer.results_by_topic_v3_and_below).results_by_partition).partition_error_code)
