"""A regular expression over transactional ids, in RE2's syntax (KIP-994)."""

from ottla.groupcoord.topic_regex import TopicRegex


class IdPattern:
    """A compiled expression over whole ids; INVALID_REGULAR_EXPRESSION for a malformed one."""

    def __init__(self, pattern: str) -> None:
        self._regex = TopicRegex.compile(pattern, "TransactionalIdPattern")

    def matches(self, transactional_id: str) -> bool:
        """Return True if the whole id matches."""
        return self._regex.matches(transactional_id)
