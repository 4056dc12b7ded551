"""What a topic of the source is called in the target, and which topics would go round in a circle.

The default policy puts the source's alias before the name, so a topic tells where it has been: `a.orders` in
b came from a, and the mirror from b to a leaves it alone. The identity policy keeps names; there a header of
each row tells where it has been.
"""

import re
from dataclasses import dataclass
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import check_topic_name
from ottla.pipeline.words import OptionError

DEFAULT_POLICY: Final = "DefaultReplicationPolicy"
IDENTITY_POLICY: Final = "IdentityReplicationPolicy"
# Never mirrored, whatever the options say: they are about the cluster that they are in.
INTERNAL: Final = (r"__.*", r"\..*", r".*[-.]internal")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPolicy:
    """`separator` is None for the identity policy."""

    source_alias: str
    target_alias: str
    separator: str | None

    def remote_topic(self, topic: str) -> str:
        """The name in the target; OptionError if it is none that Kafka allows."""
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
        """What stands before a name in the target."""
        return "" if self.separator is None else self.source_alias + self.separator

    def source_topic(self, remote_topic: str) -> str | None:
        """The name in the source of a topic of the target; None for one that does not come from there."""
        if not remote_topic.startswith(self.prefix) or remote_topic == self.prefix:
            return None
        return remote_topic.removeprefix(self.prefix)

    def circles(self) -> tuple[str, ...]:
        """An expression for the topics that have been in the target, as far as names tell."""
        if self.separator is None:
            return ()
        separator = re.escape(self.separator)
        # Anywhere in the chain: a.b.orders has been in a and in b.
        return (f"(?:.*{separator})?{re.escape(self.target_alias)}{separator}.+",)

    def offset_syncs_topic(self) -> str:
        """Where in the target the map of offsets is kept."""
        return f"mirror-offset-syncs.{self.source_alias}.internal"


def read_policy(name: str, *, source_alias: str, target_alias: str, separator: str) -> ReplicationPolicy:
    """The policy of a class of MirrorMaker's, with its package or without."""
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
    policy.remote_topic("t")
    return policy
