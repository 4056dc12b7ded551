"""A hash of 64 bits over the topics of a group, to find out if they have changed since a target (D15)."""

from collections.abc import Iterable
from hashlib import blake2b
from struct import Struct

from ottla.groupcoord.topics_view import TopicInfo, TopicsView

_pack_size = Struct(">I").pack


def group_hash(topic_names: Iterable[str], topics: TopicsView) -> int:
    """Return a signed 64-bit hash over the topics of these names that exist, or 0 if none exists."""
    found = [topic for name in sorted(topic_names) if (topic := topics.by_name(name)) is not None]
    if not found:
        return 0
    total = blake2b(b"".join(map(_topic_bytes, found)), digest_size=8)
    return int.from_bytes(total.digest(), signed=True)


def _topic_bytes(topic: TopicInfo) -> bytes:
    """Return id, name, partitions and racks, with their lengths: no two shapes have the same bytes."""
    if not topic.racks:  # as in most clusters; a group may have ten thousand topics
        topic_id, name = topic.topic_id, topic.name.encode(errors="surrogatepass")
        id_length, length = len(topic_id), len(name)
        return b"%b%b%b%b%b" % (
            _pack_size(id_length + length + 8),
            topic_id,
            _pack_size(length),
            name,
            _pack_size(topic.num_partitions),
        )
    parts = [topic.topic_id, _text(topic.name), topic.num_partitions.to_bytes(4)]
    for racks in topic.racks:
        parts.append(len(racks).to_bytes(2))
        parts += [_text(rack) for rack in sorted(racks)]
    content = b"".join(parts)
    return len(content).to_bytes(4) + content


def _text(text: str) -> bytes:
    encoded = text.encode(errors="surrogatepass")
    return len(encoded).to_bytes(4) + encoded
