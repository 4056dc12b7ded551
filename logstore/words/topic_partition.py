"""The name of a partition, and the text form of Kafka's 16-byte ids.

A topic's name becomes the name of a directory, so this module alone decides which names are legal, wherever
a name comes from.
"""

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError

MAX_TOPIC_NAME_LENGTH = 249  # Kafka's: 6 of the 255 bytes of a directory's name are left for "-PARTITION".
ZERO_UUID = bytes(16)
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class TopicPartition(NamedTuple):
    """The name of a partition: its topic and its number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION unless `name` is one that Kafka allows."""
    if not name:
        problem = "it is empty"
    elif name in (".", ".."):
        problem = "it is '.' or '..'"
    elif len(name) > MAX_TOPIC_NAME_LENGTH:
        problem = f"it is longer than {MAX_TOPIC_NAME_LENGTH} characters"
    elif not _LEGAL_NAME.fullmatch(name):
        problem = "it has a character other than ASCII letters, digits, '.', '_' and '-'"
    else:
        return
    raise KafkaError(
        ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name {name[:300]!r} is not allowed: {problem}."
    )


def uuid_to_text(uuid: bytes) -> str:
    """Return a 16-byte id as Kafka prints it: URL-safe base64 without padding, 22 characters."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_from_text(text: str) -> bytes:
    """Return the 16 bytes of an id; raise INVALID_REQUEST unless the text is 22 base64url characters."""
    try:
        uuid = urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError):
        uuid = b""
    if len(uuid) != 16 or len(text) != 22 or "+" in text or "/" in text:  # which the decoder accepts, too
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{text[:64]!r} is not an id of 22 base64url characters.")
    return uuid
