"""Dead letters of share groups (KIP-1191): the origin that their headers name, and the record's own headers.

Any client that may write to the topic may write such headers, so all of them are validated first.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.logstore.record import Headers, Record
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_client import Client
from ottla.node.client.config_admin import describe_resources
from ottla.node.client.topic_admin import config_of_group
from ottla.node.settings.group_config_def import COPIES_RECORDS, DEAD_LETTER_TOPIC
from ottla.node.wire.dead_letter_headers import (
    DELIVERY_COUNT,
    GROUP,
    MESSAGE,
    OFFSET,
    PARTITION,
    PREFIX,
    TOPIC,
)

MAX_REASON: Final = 1_000  # characters
_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
_NUMBER: Final = re.compile(rb"[0-9]{1,19}")
_MAX_INT32: Final = 2**31 - 1
_MAX_INT64: Final = 2**63 - 1


class DeadLetter(NamedTuple):
    """The origin of a record that a share group gave up on, and the reason; None for missing headers."""

    group_id: str
    origin: TopicPartition
    origin_offset: int
    delivery_count: int | None
    reason: str | None


class DeadLetterSettings(NamedTuple):
    """The topic of a share group's dead letters; None if they are dropped."""

    topic: str | None
    copies_records: bool


async def dead_letter_settings(client: Client, group_id: str) -> DeadLetterSettings:
    """Return a group's settings of dead letters; a server without KIP-1191 has none."""
    resource = config_of_group(group_id)
    found = (await describe_resources(client, [resource]))[resource]
    values = {one.name: one.value for one in found}
    return DeadLetterSettings(values.get(DEAD_LETTER_TOPIC) or None, values.get(COPIES_RECORDS) == "true")


def dead_letter_of(headers: Iterable[tuple[str, bytes | None]]) -> DeadLetter | None:
    """Return the origin in the headers of a record; None if they do not describe a dead letter.

    If a name occurs twice its last header counts, as everywhere in Kafka.
    """
    texts = {name: value for name, value in headers if name.startswith(PREFIX)}
    topic, group_id = _text(texts.get(TOPIC)), _text(texts.get(GROUP))
    partition = _number(texts.get(PARTITION), _MAX_INT32)
    offset = _number(texts.get(OFFSET), _MAX_INT64)
    if topic is None or not group_id or partition is None or offset is None:
        return None
    if not _TOPIC_NAME.fullmatch(topic) or topic in (".", ".."):
        return None
    reason = _text(texts.get(MESSAGE))
    return DeadLetter(
        group_id,
        TopicPartition(topic, partition),
        offset,
        _number(texts.get(DELIVERY_COUNT), _MAX_INT32),
        None if reason is None else reason[:MAX_REASON],
    )


def own_headers(headers: Headers) -> Headers:
    """Return the headers that a record had before it became a dead letter."""
    return tuple((name, value) for name, value in headers if not name.startswith(PREFIX))


def has_copy(letter: Record) -> bool:
    """Return True if a dead letter has content of its record; without any, it may only name its origin."""
    return letter.key is not None or letter.value is not None or bool(own_headers(letter.headers))


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _number(value: bytes | None, greatest: int) -> int | None:
    if value is None or not _NUMBER.fullmatch(value):
        return None
    number = int(value)
    return number if number <= greatest else None
