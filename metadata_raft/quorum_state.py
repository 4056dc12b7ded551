"""The file `quorum-state`: in which term this voter is, and whom it chose there.

A voter that forgot its vote could give it twice, and two leaders of one term would follow; so the file is
replaced as a whole and synced before any message of that term leaves, and one that cannot be read stops the
start. Name and fields are Kafka's, but for two: what a voter may have lost, and which file this is. A file
that names another one is a copy, and so is the directory around it.
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
MAX_TERM: Final = 2**31 - 1  # it is an epoch to Kafka's clients, an int32
_DATA_VERSION: Final = 1
_LOST: Final = "lostPromise"  # ours: [term, index, end offset]
_FILE: Final = "fileIdentity"  # ours: "inode:birth in nanoseconds"


class LostPromise(NamedTuple):
    """The end of the log up to which a voter may have acknowledged entries that its disk does not have."""

    term: int
    raft_index: int
    end_offset: int


class QuorumState(NamedTuple):
    """The term and the node that got this voter's vote in it, NOBODY if none did."""

    term: int
    voted_id: int
    lost: LostPromise | None = None  # while this voter has no vote because its disk went back
    copied_from: FileIdentity | None = None  # while it has none because its directory is a copy


def read_quorum_state(disk: Disk, directory: Path) -> QuorumState | None:
    """What the file says, None where there is none; KAFKA_STORAGE_ERROR if it is damaged."""
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
        # One that an earlier version wrote names none, and is believed.
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
    """Replace the file; durable when this returns. A copy goes on to name the file that it was made of."""

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
