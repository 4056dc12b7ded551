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


def read_offsets(value: object, option: str, *, least: int = 0) -> SourceOffsets:
    """Return the offsets of parsed JSON; OptionError, with the name `option`, for anything else.

    `least` is EARLIEST if -1 and -2 may stand for the latest and the earliest offset.
    """
    offsets: dict[TopicPartition, int] = {}
    topic_ids: dict[str, bytes] = {}
    for topic, of_topic in _members(value, option).items():
        _check_name(topic, option)
        for name, number in _members(of_topic, option).items():
            if name == ID:
                topic_ids[topic] = _read_id(number, topic, option)
                continue
            partition = TopicPartition(topic, _read_partition(name, topic, option))
            offsets[partition] = read_number(number, f"of {partition}", option, least=least)
    return SourceOffsets(offsets=offsets, topic_ids=topic_ids)


def read_partitions(text: str, option: str) -> frozenset[TopicPartition]:
    """Read the option `assign`, `{"topic": [0, 1]}`; OptionError."""
    found: set[TopicPartition] = set()
    for topic, numbers in _members(open_json(text, option), option, '{"topic": [0, 1]}').items():
        _check_name(topic, option)
        if not isinstance(numbers, list):
            raise OptionError(
                option, f'has no list of partitions for topic {topic}; write it as in {{"topic": [0, 1]}}'
            )
        for number in numbers:
            partition = read_number(number, f"of a partition of {topic}", option, most=_MAX_PARTITION)
            found.add(TopicPartition(topic, partition))
    if not found:
        raise OptionError(option, 'names no partition; write them as in {"topic": [0, 1]}')
    return frozenset(found)


def read_number(number: object, subject: str, option: str, *, least: int = 0, most: int = MAX_OFFSET) -> int:
    """Read a whole number out of JSON; OptionError."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise OptionError(option, f"{str(number)[:40]!r} {subject} is not a whole number")
    if not least <= number <= most:
        raise OptionError(option, f"{number} {subject} is not from {least} to {most}")
    return number


def open_json(text: str, option: str) -> object:
    """Parse JSON in which no name may come twice; OptionError."""
    if len(text) > MAX_JSON_CHARACTERS:
        raise OptionError(option, f"has {len(text)} characters; at most {MAX_JSON_CHARACTERS} are allowed")
    try:
        return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError) as fault:
        raise OptionError(option, f"{text[:80]!r} is not valid JSON: {str(fault)[:200]}") from None


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)[:80]!r} is given twice")
    return members


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _members(value: object, option: str, example: str = _EXAMPLE) -> dict[str, object]:
    if not isinstance(value, dict):
        raise OptionError(option, f"{str(value)[:80]!r} is not of the form {example}")
    return value


def check_names(topics: Iterable[str], option: str) -> None:
    """Raise OptionError, with the name `option`, if one of these is not a valid topic name."""
    for topic in topics:
        _check_name(topic, option)


def _check_name(topic: str, option: str) -> None:
    try:
        check_topic_name(topic)
    except KafkaError as fault:
        raise OptionError(option, fault.detail) from None


def _read_partition(name: str, topic: str, option: str) -> int:
    if not _PARTITION.fullmatch(name) or int(name) > _MAX_PARTITION:
        raise OptionError(option, f"{name[:40]!r} is not a partition of topic {topic}")
    return int(name)


def _read_id(text: object, topic: str, option: str) -> bytes:
    try:
        return uuid_from_text(text if isinstance(text, str) else "")
    except KafkaError:
        raise OptionError(option, f"{str(text)[:40]!r} is not an id of topic {topic}") from None
