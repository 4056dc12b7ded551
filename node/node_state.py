"""What every part of a node may know of the node as a whole: its settings now, and what it may do."""

import asyncio

from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.node.metadata.quorum_contact import QuorumContact
from ottla.node.settings.config import BrokerConfig


class NodeState:
    """The few facts about a node that change while it runs; the broker writes them, on its loop."""

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
        self.cluster_id = ZERO_UUID  # until the log directories or a voter have told it
        self.contact = QuorumContact(config.broker_session_timeout_ms / 1000)
        self.is_cut_off = False  # others may lead by now what this node believes to lead
        self.is_serving = False  # clients are let in
        self.has_started = False  # they were, once
        # It was in sync with all it holds since it started; whichever probe sees it writes it, in any thread.
        self.has_caught_up = False

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def cut_off_since_ms(self) -> int | None:
        """The time (ms) of the last contact to a leader of the quorum if this node is cut off, else None."""
        return self.contact.cut_off_since_ms(asyncio.get_running_loop().time())
