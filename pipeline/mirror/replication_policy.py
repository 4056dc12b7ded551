"""The names of the source's topics in the target, and the topics that would be copied in cycles.

The default policy puts the source's alias before the name, so a topic shows where it has been: `a.orders` in
b came from a, and the mirror from b to a ignores it. The identity policy keeps names; there a header of each
row shows where it has been.
"""

import re
from dataclasses import dataclass
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import check_topic_name
from ottla.pipeline.words import OptionError

DEFAULT_POLICY: Final = "DefaultReplicationPolicy"
IDENTITY_POLICY: Final = "IdentityReplicationPolicy"
# Never mirrored, whatever the options say: they belong to the cluster that they are in.
INTERNAL: Final = (r"__.*", r"\..*", r".*[-.]internal")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPolicy:
    """The names of topics in the target; `separator` is None for the identity policy."""

    source_alias: str
    target_alias: str
    separator: str | None

    def check(self) -> None:
        """Raise OptionError if Kafka allows no topic name with the prefix."""
        try:
            check_topic_name(self.prefix + "t")
        except KafkaError as error:
            raise OptionError(
                "replication.policy.class",
                f"gives topics the prefix {self.prefix!r}, which Kafka does not allow: {error.detail}",
            ) from None

    def remote_topic(self, topic: str) -> str:
        """Return the name in the target; OptionError if Kafka does not allow it."""
        name = self.prefix + topic
        try:
            check_topic_name(name)
        except KafkaError as error:
            raise OptionError(
                "replication.policy.class", f"gives topic {topic} a name that is not allowed: {error.detail}"
            ) from None
        return name

    @property
    def prefix(self) -> str:
        """The prefix of names in the target."""
        return "" if self.separator is None else self.source_alias + self.separator

    def upstream_topic(self, remote_topic: str) -> str | None:
        """Return the source's name of a topic in the target; None if the name lacks the source's alias.

        The identity policy returns each name unchanged.
        """
        if not remote_topic.startswith(self.prefix) or remote_topic == self.prefix:
            return None
        return remote_topic.removeprefix(self.prefix)

    def cycle_patterns(self) -> tuple[str, ...]:
        """Return regular expressions of topics whose names show that they have been in the target.

        The identity policy has none.
        """
        if self.separator is None:
            return ()
        separator = re.escape(self.separator)
        # Anywhere in the chain: a.b.orders has been in a and in b.
        return (f"(?:.*{separator})?{re.escape(self.target_alias)}{separator}.+",)

    def offset_syncs_topic(self) -> str:
        """Return the topic in the target that keeps the map of offsets."""
        return f"mirror-offset-syncs.{self.source_alias}.internal"


def read_policy(name: str, *, source_alias: str, target_alias: str, separator: str) -> ReplicationPolicy:
    """Return the policy of one of MirrorMaker's classes, named with or without its package."""
    short = name.removeprefix("org.apache.kafka.connect.mirror.")
    if short not in (DEFAULT_POLICY, IDENTITY_POLICY):
        raise OptionError(
            "replication.policy.class", f"is {name[:80]!r}; it must be {DEFAULT_POLICY} or {IDENTITY_POLICY}"
        )
    policy = ReplicationPolicy(
        source_alias=source_alias,
        target_alias=target_alias,
        separator=separator if short == DEFAULT_POLICY else None,
    )
    policy.check()
    return policy
