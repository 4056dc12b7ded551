"""The cases of the differential test: each is one request, in all versions, with names of the server."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.compat.wire_client import WireClient, eventually, only

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
LONG_AGO_MS = 1_700_000_000_000
UNKNOWN_ID = b"\x07" * 16
Fields = dict[str, Any]


@dataclass(slots=True)
class Context:
    """The names that a case can use: the topics of the run, and their ids on this server."""

    run: str
    node: int
    version: int
    topic: str
    topic_id: bytes
    compacted: str

    @classmethod
    def create(cls, client: WireClient, run: str, node: int) -> "Context":
        topic, compacted = f"differ-{run}", f"differ-compacted-{run}"
        compact = [{"name": "cleanup.policy", "value": "compact"}]
        for name, partitions, configs in ((topic, 2, []), (compacted, 1, compact)):
            wanted = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": configs}
            answer = client.call("create_topics", 7, topics=[wanted], timeout_ms=10_000)
            assert only(answer.topics).error_code == 0, answer
            wait_for(client, name)
        found = only(client.call("metadata", 12, topics=[{"name": topic}]).topics)
        return cls(run, node, 0, topic, bytes(found.topic_id), compacted)

    def fresh(self, word: str) -> str:
        """Return a name that is new in every version of a case."""
        return f"{word}-{self.run}-{self.version}"

    def named(self, since_id: int, name: str | None = None, **fields: Any) -> Fields:
        """Return the fields that name a topic: by its name, or from version `since_id` on by its id."""
        if self.version < since_id:
            return {
                ("topic" if since_id == 13 and "partitions" in fields else "name"): name or self.topic,
                **fields,
            }
        return {"topic_id": UNKNOWN_ID if name else self.topic_id, **fields}


def wait_for(client: WireClient, name: str) -> None:
    wanted = {"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}
    eventually(
        lambda: client.call("list_offsets", 5, replica_id=-1, topics=[wanted]),
        lambda found: only(only(found.topics).partitions).error_code == 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request; `since` and `until` narrow the versions that both servers have."""

    api: str
    name: str
    fields: Callable[[Context], Fields]
    since: int = 0
    until: int = 99

    def versions(self, first: int, last: int) -> Iterable[int]:
        return range(max(first, self.since), min(last, self.until) + 1)


CASES: list[Case] = []


def case(
    api: str, name: str, fields: Fields | Callable[[Context], Fields], since: int = 0, until: int = 99
) -> None:
    made = fields if callable(fields) else (lambda context: fields)
    CASES.append(Case(api=api, name=name, fields=made, since=since, until=until))
