"""Offsets of a source as Spark keeps them in its checkpoint: the connector's JSON, with the ids of topics.

    {"flights": {"0": 500, "1": 498, "id": "Jk3-VfTpQ1S0E2bYlqBvhA"}}

An offset is the next one to read. The id distinguishes a topic from one that was deleted and created again
under its name. It is absent if the cluster has no ids, and optional, so that checkpoints of the connector can
be read.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import (
    ZERO_UUID,
    TopicPartition,
    check_topic_name,
    uuid_from_text,
    uuid_to_text,
)
from ottla.pipeline.words import OptionError

LATEST: Final = -1
EARLIEST: Final = -2
ID: Final = "id"  # beside a topic's partitions, whose names are digits
MAX_OFFSET: Final = 2**63 - 1
# A hundred thousand partitions take some megabytes; no real option is longer.
MAX_JSON_CHARACTERS: Final = 64 * 1024 * 1024
_EXAMPLE: Final = '{"topic": {"0": 23, "1": 17}}'
_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_MAX_PARTITION: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffsets:
    """The next offset to read of each partition, and the ids of topics as far as they are known."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic, or zeros if it is unknown."""
        return self.topic_ids.get(topic, ZERO_UUID)

    def to_json(self) -> dict[str, dict[str, int | str]]:
        """Return the offsets in a form of which `json` always writes the same text: Spark compares texts."""
        written: dict[str, dict[str, int | str]] = {}
        for partition in sorted(self.offsets):
            written.setdefault(partition.topic, {})[str(partition.partition)] = self.offsets[partition]
        for topic, of_topic in written.items():
            if (topic_id := self.topic_id(topic)) != ZERO_UUID:
                of_topic[ID] = uuid_to_text(topic_id)
        return written


def read_offsets(value: object, where: str, *, least: int = 0) -> SourceOffsets:
    """Return the offsets of parsed JSON; OptionError, with the name `where`, for anything else.

    `least` is EARLIEST if -1 and -2 may stand for the latest and the earliest offset.
    """
    offsets: dict[TopicPartition, int] = {}
    topic_ids: dict[str, bytes] = {}
    for topic, of_topic in _members(value, where).items():
        _check_name(topic, where)
        for name, number in _members(of_topic, where).items():
            if name == ID:
                topic_ids[topic] = _read_id(number, topic, where)
                continue
            partition = TopicPartition(topic, _read_partition(name, topic, where))
            offsets[partition] = read_number(number, f"of {partition}", where, least=least)
    return SourceOffsets(offsets=offsets, topic_ids=topic_ids)


def read_partitions(text: str, where: str) -> frozenset[TopicPartition]:
    """Read the option `assign`, `{"topic": [0, 1]}`; OptionError."""
    found: set[TopicPartition] = set()
    for topic, numbers in _members(open_json(text, where), where, '{"topic": [0, 1]}').items():
        _check_name(topic, where)
        if not isinstance(numbers, list):
            raise OptionError(
                where, f'has no list of partitions for topic {topic}; write it as in {{"topic": [0, 1]}}'
            )
        for number in numbers:
            partition = read_number(number, f"of a partition of {topic}", where, most=_MAX_PARTITION)
            found.add(TopicPartition(topic, partition))
    if not found:
        raise OptionError(where, 'names no partition; write them as in {"topic": [0, 1]}')
    return frozenset(found)


def read_number(number: object, what: str, where: str, *, least: int = 0, most: int = MAX_OFFSET) -> int:
    """Read a whole number out of JSON; OptionError."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise OptionError(where, f"{str(number)[:40]!r} {what} is not a whole number")
    if not least <= number <= most:
        raise OptionError(where, f"{number} {what} is not from {least} to {most}")
    return number


def open_json(text: str, where: str) -> object:
    """Parse JSON in which no name may come twice; OptionError."""
    if len(text) > MAX_JSON_CHARACTERS:
        raise OptionError(where, f"has {len(text)} characters; at most {MAX_JSON_CHARACTERS} are allowed")
    try:
        return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError) as fault:
        raise OptionError(where, f"{text[:80]!r} is not valid JSON: {str(fault)[:200]}") from None


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)[:80]!r} is given twice")
    return members


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _members(value: object, where: str, example: str = _EXAMPLE) -> dict[str, object]:
    if not isinstance(value, dict):
        raise OptionError(where, f"{str(value)[:80]!r} is not of the form {example}")
    return value


def check_names(topics: Iterable[str], where: str) -> None:
    """Raise OptionError, with the name `where`, if one of these is not a valid topic name."""
    for topic in topics:
        _check_name(topic, where)


def _check_name(topic: str, where: str) -> None:
    try:
        check_topic_name(topic)
    except KafkaError as fault:
        raise OptionError(where, fault.detail) from None


def _read_partition(name: str, topic: str, where: str) -> int:
    if not _PARTITION.fullmatch(name) or int(name) > _MAX_PARTITION:
        raise OptionError(where, f"{name[:40]!r} is not a partition of topic {topic}")
    return int(name)


def _read_id(text: object, topic: str, where: str) -> bytes:
    try:
        return uuid_from_text(text if isinstance(text, str) else "")
    except KafkaError:
        raise OptionError(where, f"{str(text)[:40]!r} is not an id of topic {topic}") from None
