"""The state that all parts of a node share: its current settings, and what it may do."""

import asyncio

from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.node.metadata.quorum_contact import QuorumContact
from ottla.node.settings.config import BrokerConfig


class NodeState:
    """The few facts about a node that change while it runs; the broker writes them on its loop."""

    __slots__ = (
        "cluster_id",
        "config",
        "contact",
        "has_caught_up",
        "has_started",
        "is_cut_off",
        "is_serving",
    )

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.cluster_id = ZERO_UUID  # until it is read from the log directories or received from a voter
        self.contact = QuorumContact(config.broker_session_timeout_ms / 1000)
        self.is_cut_off = False  # others may already lead partitions that this node believes it leads
        self.is_serving = False  # clients may connect
        self.has_started = False  # it has served clients at least once
        # All its replicas have been in sync at once since it started. The first probe that sees this sets it,
        # in any thread.
        self.has_caught_up = False

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def cut_off_since_ms(self) -> int | None:
        """The time (ms) of the last contact to a leader of the quorum if this node is cut off, else None."""
        return self.contact.cut_off_since_ms(asyncio.get_running_loop().time())
