"""Plans of reassignments, in the JSON that kafka-reassign-partitions writes and reads. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeGuard

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.escaped_text import CONTROLS
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition, check_topic_name
from ottla.metadata_raft.image import BrokerImage, MetadataImage
from ottla.metadata_raft.leader_spread import LeaderSpread
from ottla.metadata_raft.replica_placement import place_replicas
from ottla.node.client.refusal import Refused

VERSION: Final = 1
ANY: Final = "any"  # of log_dirs: the broker chooses
MAX_PLAN_BYTES: Final = 64 * 1024 * 1024  # some 400,000 partitions

MAX_PATH_CHARACTERS: Final = 4_096
Assignment = Mapping[TopicPartition, Sequence[int]]


class Replica(NamedTuple):
    """A replica of a partition on a broker; as text, Kafka's TopicPartitionReplica."""

    partition: TopicPartition
    broker_id: int

    def __str__(self) -> str:
        return f"{self.partition}-{self.broker_id}"


class Plan(NamedTuple):
    """The brokers of each partition, and the directories of those replicas whose directory is not `any`."""

    replicas: Assignment
    log_dirs: Mapping[Replica, str]


def plan_as_json(
    assignment: Assignment, log_dirs: Mapping[Replica, str] = MappingProxyType({})
) -> dict[str, object]:
    """Return a plan as Kafka's tool prints it; replicas that are not in `log_dirs` have `any`."""
    return {
        "version": VERSION,
        "partitions": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "replicas": list(replicas),
                "log_dirs": [log_dirs.get(Replica(one, broker_id), ANY) for broker_id in replicas],
            }
            for one, replicas in sorted(assignment.items())
        ],
    }


def plan_as_text(assignment: Assignment) -> str:
    """Return a plan on one line, for a file."""
    return json.dumps(plan_as_json(assignment), separators=(",", ":"))


def parse_plan(content: bytes) -> Plan:
    """Return the plan in a file; ValueError with the reason if it is not valid."""
    entries = _entries(content, "partitions")
    found: dict[TopicPartition, list[int]] = {}
    places: dict[Replica, str] = {}
    for entry in entries:
        topic, number, replicas = entry.get("topic"), entry.get("partition"), entry.get("replicas")
        if not isinstance(topic, str) or not _is_id(number) or not isinstance(replicas, list):
            raise ValueError('each partition needs "topic", "partition" and "replicas"')
        one = TopicPartition(_allowed(topic), number)
        if not replicas or not all(map(_is_id, replicas)):
            raise ValueError(f"the replicas of {one} are not a list of broker ids")
        if len(set(replicas)) < len(replicas):
            raise ValueError(f"the replicas of {one} name a broker twice")
        if one in found:
            raise ValueError(f"{one} is listed twice")
        log_dirs = entry.get("log_dirs", [ANY] * len(replicas))
        if not isinstance(log_dirs, list) or len(log_dirs) != len(replicas):
            raise ValueError(f"{one} does not have as many log_dirs as replicas")
        for broker_id, path in zip(replicas, log_dirs, strict=True):
            if not _is_path(path):
                raise ValueError(f'the log_dirs of {one} are neither "{ANY}" nor absolute paths')
            if path != ANY:
                places[Replica(one, broker_id)] = path
        found[one] = replicas
    if not found:
        raise ValueError("it has no partitions")
    return Plan(found, places)


def parse_topics(content: bytes) -> list[str]:
    """Return the topics in a file of topics to move; ValueError with the reason if it is not a valid file."""
    found: dict[str, None] = {}
    for entry in _entries(content, "topics"):
        topic = entry.get("topic")
        if not isinstance(topic, str):
            raise ValueError('each topic needs "topic"')
        if _allowed(topic) in found:
            raise ValueError(f"topic {topic} is listed twice")
        found[topic] = None
    if not found:
        raise ValueError("it has no topics")
    return list(found)


def _entries(content: bytes, name: str) -> list[dict[str, object]]:
    if len(content) > MAX_PLAN_BYTES:
        raise ValueError(f"it is larger than {MAX_PLAN_BYTES:,} bytes")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(document, dict) or document.get("version", VERSION) != VERSION:
        raise ValueError(f'it is not an object with "version": {VERSION}')
    entries = document.get(name)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f'it has no list of "{name}"')
    return entries


def _allowed(topic: str) -> str:
    """Return the name of a topic; ValueError if no topic can have it."""
    try:
        check_topic_name(topic)
    except KafkaError as error:
        raise ValueError(error.detail.rstrip(".")) from None
    return topic


def _is_path(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and (
        value == ANY
        or (value.startswith("/") and len(value) <= MAX_PATH_CHARACTERS and not CONTROLS.search(value))
    )


def _is_id(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def propose(
    current: Assignment, racks: Mapping[int, str | None], seed: int
) -> dict[TopicPartition, list[int]]:
    """Return new brokers for all partitions, spread over racks and brokers like those of a new topic.

    Each topic keeps the number of replicas of its first partition, as in Kafka's tool. Refused if there are
    too few brokers.
    """
    brokers = [_broker(broker_id, rack) for broker_id, rack in sorted(racks.items())]
    spread = LeaderSpread(MetadataImage(), {})
    found: dict[TopicPartition, list[int]] = {}
    for topic, partitions in _by_topic(current).items():
        factor = len(current[partitions[0]])
        try:
            placed = place_replicas(
                brokers,
                first_partition=0,
                count=len(partitions),
                replication_factor=factor,
                seed=seed,
                spread=spread,
            )
        except KafkaError as error:
            raise Refused(f"Topic {topic} cannot be placed on these brokers: {error.detail}") from None
        spread.add(replicas[0] for replicas in placed)
        found |= {one: list(replicas) for one, replicas in zip(partitions, placed, strict=True)}
    return found


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for one in sorted(partitions):
        found.setdefault(one.topic, []).append(one)
    return found


def _broker(broker_id: int, rack: str | None) -> BrokerImage:
    return BrokerImage(
        broker_id=broker_id,
        broker_epoch=0,
        incarnation_id=ZERO_UUID,
        listeners={},
        rack=rack,
        fenced=False,
        in_controlled_shutdown=False,
        log_dirs=(),
        features={},
    )
