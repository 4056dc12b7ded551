"""What deciding a command gives: the records to append, and the answer for when they are committed."""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.metadata_raft.commands import Reply
from ottla.metadata_raft.records import MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """No records: nothing to change, and the reply shows what is there."""

    records: Sequence[MetadataRecord] = ()
    reply: Reply
