"""The result of deciding a command: the records to append, and the reply to send once they are committed."""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.metadata_raft.commands import Reply
from ottla.metadata_raft.records import MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The records and the reply; without records nothing changes, and the reply shows the current state."""

    records: Sequence[MetadataRecord] = ()
    reply: Reply
