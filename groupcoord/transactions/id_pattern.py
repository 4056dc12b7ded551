"""An expression over transactional ids, in RE2's syntax (KIP-994)."""

from groupcoord.topic_regex import TopicRegex
from logstore.errors import ErrorCode, KafkaError

# Stands for every character beyond ASCII: `.` matches it and `[^a]` does, no letter or class does.
_STAND_IN = "\0"


class IdPattern:
    """Compiled; keeps what it learned from the ids before, so it belongs to one request."""

    def __init__(self, pattern: str) -> None:
        """INVALID_REGULAR_EXPRESSION for what is none, and for one that names characters beyond ASCII."""
        if not pattern.isascii():
            raise KafkaError(
                ErrorCode.INVALID_REGULAR_EXPRESSION, "Patterns of transactional ids are in ASCII here."
            )
        self._regex = TopicRegex.compile(pattern)

    def matches(self, transactional_id: str) -> bool:
        """Whether the whole id matches."""
        if not transactional_id.isascii():
            transactional_id = "".join(one if one < "\x80" else _STAND_IN for one in transactional_id)
        return self._regex.matches(transactional_id)
