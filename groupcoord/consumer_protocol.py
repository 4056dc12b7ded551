"""What consumers of a classic group say to each other in the metadata of their assignors."""

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """The topics in a consumer's subscription (ConsumerProtocolSubscription), or None if it is not one.

    Layout since version 0: int16 version, int32 count of topics, each an int16 length and UTF-8; what follows
    belongs to later versions. Assignors of our own making may send anything, so bytes that are no
    subscription are no error.
    """
    size = len(metadata)
    if size < 6 or int.from_bytes(metadata[:2], signed=True) < 0:
        return None
    count, position = int.from_bytes(metadata[2:6], signed=True), 6
    if not 0 <= count <= (size - 6) // 2:
        return None
    topics = []
    for _ in range(count):
        end = position + 2
        length = int.from_bytes(metadata[position:end], signed=True)
        if end > size or length < 0 or end + length > size:
            return None
        try:
            topics.append(metadata[end : end + length].decode())
        except UnicodeDecodeError:
            return None
        position = end + length
    return topics
