"""The whole table of a share-partition's moves."""

import pytest

from ottla.groupcoord.share_state.share_state_words import StateBatch, StateRead
from ottla.logstore.words.errors import KafkaError
from ottla.node.share.share_partition import SharePartition
from ottla.node.share.share_words import (
    SHARE_PARTITION_MOVES,
    ShareConfig,
    ShareLimits,
    SharePartitionStatus,
)
from tests.unit.node.share.partitions import KEY

EMPTY, ACTIVE, FAILED, FENCED = SharePartitionStatus
LEGAL = {(EMPTY, ACTIVE), (EMPTY, FAILED), (EMPTY, FENCED), (ACTIVE, FENCED), (FAILED, FENCED)}


def share_partition(status: SharePartitionStatus) -> SharePartition:
    """Return a share-partition in this state."""
    made = SharePartition(KEY, 0, ShareConfig(), ShareLimits())
    match status:
        case SharePartitionStatus.ACTIVE:
            made.restore(StateRead(KEY), 0)
        case SharePartitionStatus.FAILED:
            with pytest.raises(KafkaError):
                made.restore(StateRead(KEY, start_offset=10, batches=(StateBatch(20, 10, 0, 1),)), 0)
        case SharePartitionStatus.FENCED:
            made.fence()
    assert made.status is status
    return made


def test_the_table_has_these_moves_and_no_others() -> None:
    found = {(before, after) for before, states in SHARE_PARTITION_MOVES.items() for after in states}

    assert found == LEGAL
    assert set(SHARE_PARTITION_MOVES) == set(SharePartitionStatus)


@pytest.mark.parametrize("status", SharePartitionStatus)
def test_a_share_partition_is_fenced_once_in_any_state(status: SharePartitionStatus) -> None:
    made = share_partition(status)

    if (status, FENCED) in LEGAL:
        made.fence()
        assert made.status is FENCED
    else:
        with pytest.raises(AssertionError):
            made.fence()


@pytest.mark.parametrize("status", [ACTIVE, FAILED, FENCED])
def test_a_share_partition_reads_its_state_once(status: SharePartitionStatus) -> None:
    made = share_partition(status)

    with pytest.raises(AssertionError):
        made.restore(StateRead(KEY), 0)

    assert made.status is status
