"""The file `quorum-state`, with the term of this voter and its vote in that term.

A voter that lost its vote could vote twice, and a term would have two leaders. So the file is replaced as a
whole and synced before any message of that term is sent, and a node does not start with a file that it cannot
read. Name and fields are Kafka's, with two additions: the acknowledged entries that the voter may have lost,
and the identity of this file. A file with the identity of another one is a copy, and so is its directory.
"""

import json
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.disk import Disk
from ottla.logstore.file_identity import FileIdentity, identity_of_text
from ottla.logstore.words.errors import ErrorCode, KafkaError

QUORUM_STATE: Final = "quorum-state"
MAX_QUORUM_STATE_BYTES: Final = 4096
NOBODY: Final = -1
MAX_TERM: Final = 2**31 - 1  # Kafka's clients get it as an epoch, an int32
_DATA_VERSION: Final = 1
_LOST: Final = "lostPromise"  # not in Kafka: [term, index, end offset]
_FILE: Final = "fileIdentity"  # not in Kafka: "inode:birth in nanoseconds"


class LostPromise(NamedTuple):
    """The end of a log that a voter may have acknowledged, although its disk does not have it any more."""

    term: int
    raft_index: int
    end_offset: int


class QuorumState(NamedTuple):
    """The term, and the node that this voter voted for in it, NOBODY if it did not vote."""

    term: int
    voted_id: int
    lost: LostPromise | None = None  # set while this voter may not vote because its disk was restored
    copied_from: FileIdentity | None = None  # set while it may not vote because its directory is a copy


def read_quorum_state(disk: Disk, directory: Path) -> QuorumState | None:
    """Read the file; None if there is none, KAFKA_STORAGE_ERROR if it is damaged."""
    path = directory / QUORUM_STATE
    if not disk.exists(path):
        return None
    content = disk.read_file(path)
    try:
        if len(content) > MAX_QUORUM_STATE_BYTES:
            raise ValueError
        values = json.loads(content)
        term, voted_id = values["leaderEpoch"], values["votedId"]
        if (
            type(term) is not int
            or type(voted_id) is not int
            or not 0 <= term <= MAX_TERM
            or values["data_version"] != _DATA_VERSION
        ):
            raise ValueError
        lost = values.get(_LOST)
        if lost is not None:
            lost = LostPromise(*lost)
            if not all(type(number) is int and number >= 0 for number in lost):
                raise ValueError
        # A file that an earlier version wrote has no identity, and counts as the original.
        named = identity_of_text(values[_FILE]) if _FILE in values else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{path} is damaged. It holds the vote of this node, so the node could "
            "vote twice without it. Remove this node from the voters of the quorum, "
            "and add it again with an empty directory.",
        ) from None
    found = disk.identity_of(path)
    is_copy = named is not None and not named.is_same(found)
    return QuorumState(term, voted_id, lost, named if is_copy else None)


def write_quorum_state(disk: Disk, directory: Path, state: QuorumState) -> None:
    """Replace the file, durably. The file of a copied directory keeps the identity of its original."""

    def content_of(own: FileIdentity) -> bytes:
        return json.dumps({**values, _FILE: (state.copied_from or own).as_text()}).encode()

    values: dict[str, object] = {
        "leaderEpoch": state.term,
        "votedId": state.voted_id,
        "data_version": _DATA_VERSION,
    }
    if state.lost is not None:
        values[_LOST] = list(state.lost)
    disk.write_file_that_names_itself(directory / QUORUM_STATE, content_of)
