"""High watermark and ISR from the followers' positions, by tables and against a simple model."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.words.errors import ErrorCode
from ottla.node.replica.isr import InSyncReplicas, IsrProposal

LEADER = 1
LAG_MS = 10_000


def isr_of(
    *, isr: Sequence[int] = (1, 2, 3), replicas: Sequence[int] = (1, 2, 3), end: int = 0, now_ms: int = 0
) -> InSyncReplicas:
    return InSyncReplicas(
        leader_id=LEADER,
        leader_epoch=5,
        partition_epoch=7,
        replicas=replicas,
        in_sync_replicas=isr,
        leader_end_offset=end,
        now_ms=now_ms,
    )


def fetched(
    isr: InSyncReplicas, replica_id: int, offset: int, *, end: int = 100, now_ms: int = 0, epoch: int = 1
) -> None:
    isr.followers[replica_id].fetched(
        offset=offset, log_start_offset=0, leader_end_offset=end, broker_epoch=epoch, now_ms=now_ms
    )


def watermark(isr: InSyncReplicas, *, end: int = 100, now_ms: int = 0, eligible: bool = True) -> int:
    return isr.high_watermark(end, now_ms=now_ms, max_lag_ms=LAG_MS, is_eligible=lambda *_: eligible)


def expansion(isr: InSyncReplicas, replica_id: int, *, high_watermark: int = 0) -> IsrProposal | None:
    return isr.propose_expansion(
        replica_id,
        log_start_offset=0,
        high_watermark=high_watermark,
        own_broker_epoch=11,
        is_eligible=lambda *_: True,
    )


def shrinking(isr: InSyncReplicas, *, end: int = 100, now_ms: int = 0) -> IsrProposal | None:
    return isr.propose_shrinking(end, now_ms=now_ms, max_lag_ms=LAG_MS, own_broker_epoch=11)


def test_a_proposal_names_the_removed_replicas_whose_logs_are_damaged() -> None:
    """Damaged replicas are not eligible (KIP-966); one that lags may be."""
    isr = isr_of()
    for replica_id in (2, 3):
        fetched(isr, replica_id, 100)
    isr.followers[3].is_damaged = True

    damaged = shrinking(isr)
    lagging = shrinking(isr_of(), now_ms=LAG_MS + 1)

    assert damaged is not None and (damaged.broker_ids, damaged.damaged) == ({1, 2}, (3,))
    assert lagging is not None and (lagging.broker_ids, lagging.damaged) == ({1}, ())


# ---- high watermark ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("in_sync", "positions", "expected"),
    [
        ((1,), {}, 100),
        ((1, 2), {2: 90}, 90),
        ((1, 2, 3), {2: 90, 3: 95}, 90),
        ((1, 2), {}, -1),
        ((1, 2, 3), {2: 90}, -1),
    ],
)
def test_the_high_watermark_is_the_least_of_the_replicas_in_sync(
    in_sync: tuple[int, ...], positions: dict[int, int], expected: int
) -> None:
    isr = isr_of(isr=in_sync, now_ms=-LAG_MS - 1)
    for replica_id, offset in positions.items():
        fetched(isr, replica_id, offset, now_ms=-LAG_MS - 1)

    assert watermark(isr) == expected
    assert isr.safe_offset(100) == expected


def test_the_high_watermark_waits_for_a_follower_that_is_about_to_join() -> None:
    isr = isr_of(isr=(1,), replicas=(1, 2))
    fetched(isr, 2, 90, end=90, now_ms=0)

    assert watermark(isr, end=100, now_ms=100) == 90
    assert watermark(isr, end=100, now_ms=100, eligible=False) == 100
    assert watermark(isr, end=100, now_ms=LAG_MS + 1) == 100, "one that stands still is not waited for"


def test_a_follower_that_was_not_in_sync_at_the_start_does_not_hold_the_high_watermark_back() -> None:
    assert watermark(isr_of(isr=(1,), replicas=(1, 2))) == 100


# ---- catching up ---------------------------------------------------------------------------------


def test_a_follower_of_a_busy_leader_is_caught_up_although_never_at_its_end() -> None:
    isr = isr_of(now_ms=0)
    follower = isr.followers[2]
    fetched(isr, 2, 0, end=10, now_ms=1000)
    fetched(isr, 2, 10, end=20, now_ms=2000)
    assert follower.last_caught_up_ms == 1000, "it has all that there was at 1000"
    fetched(isr, 2, 20, end=20, now_ms=3000)
    assert follower.last_caught_up_ms == 3000
    fetched(isr, 2, 15, end=40, now_ms=4000)

    assert follower.last_caught_up_ms == 3000


# ---- shrinking -----------------------------------------------------------------------------------


def test_a_follower_that_lags_is_removed_when_the_controller_agrees() -> None:
    isr = isr_of()
    fetched(isr, 2, 100, now_ms=0)
    fetched(isr, 3, 50, now_ms=0)

    assert shrinking(isr, now_ms=LAG_MS) is None
    proposal = shrinking(isr, now_ms=LAG_MS + 1)

    assert proposal == IsrProposal(isr=((1, 11), (2, 1)), leader_epoch=5, partition_epoch=7)
    assert watermark(isr, now_ms=LAG_MS + 1) == 50, "until then it counts"
    assert shrinking(isr, now_ms=2 * LAG_MS) is None, "one change at a time"
    assert not isr.settle(proposal, ErrorCode.NONE)
    assert isr.committed == (1, 2)
    assert watermark(isr, now_ms=LAG_MS + 1) == 100


def test_a_follower_that_has_everything_stays_no_matter_when_it_fetched() -> None:
    isr = isr_of()
    for replica_id in (2, 3):
        fetched(isr, replica_id, 100)

    assert shrinking(isr, now_ms=1_000_000) is None


def test_a_follower_that_never_fetched_is_removed_too() -> None:
    proposal = shrinking(isr_of(), now_ms=LAG_MS + 1)

    assert proposal is not None
    assert proposal.isr == ((1, 11),)


# ---- expanding -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "high_watermark", "is_proposed"),
    [(39, 30, False), (40, 30, True), (40, 41, False), (41, 41, True)],
)
def test_a_follower_joins_with_all_committed_records_and_the_log_before_the_leader_epoch(
    offset: int, high_watermark: int, is_proposed: bool
) -> None:
    isr = isr_of(isr=(1, 2), end=40)
    fetched(isr, 3, offset, epoch=9)

    proposal = expansion(isr, 3, high_watermark=high_watermark)

    assert (proposal is not None) == is_proposed
    if proposal is not None:
        assert proposal.isr == ((1, 11), (2, -1), (3, 9))
        assert 3 in isr.maximal


def test_until_the_controller_has_agreed_the_new_member_counts() -> None:
    isr = isr_of(isr=(1,), replicas=(1, 2), now_ms=0)
    fetched(isr, 2, 60, end=60)
    proposal = expansion(isr, 2, high_watermark=60)
    assert proposal is not None

    assert watermark(isr, end=100, now_ms=LAG_MS + 1, eligible=False) == 60
    assert isr.committed == (1,)


def test_the_metadata_end_a_proposal() -> None:
    isr = isr_of(isr=(1, 2))
    fetched(isr, 3, 100)
    proposal = expansion(isr, 3)
    assert proposal is not None

    isr.update(partition_epoch=6, replicas=(1, 2, 3), in_sync_replicas=(1,), now_ms=0)
    assert isr.is_pending(proposal), "an earlier partition epoch ends no proposal"
    isr.update(partition_epoch=8, replicas=(1, 2, 3), in_sync_replicas=(1, 2, 3), now_ms=0)

    assert not isr.is_pending(proposal)
    assert not isr.settle(proposal, ErrorCode.INVALID_UPDATE_VERSION)
    assert isr.committed == (1, 2, 3)


@pytest.mark.parametrize(
    ("error", "is_retried", "still_pending"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, False, False),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, False, False),
        (ErrorCode.INVALID_UPDATE_VERSION, False, True),
        (ErrorCode.FENCED_LEADER_EPOCH, False, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, False, True),
        (ErrorCode.NOT_CONTROLLER, True, True),
        (ErrorCode.REQUEST_TIMED_OUT, True, True),
    ],
)
def test_a_failed_proposal_is_dropped_or_sent_again_by_its_error(
    error: ErrorCode, is_retried: bool, still_pending: bool
) -> None:
    isr = isr_of(isr=(1, 2))
    fetched(isr, 3, 100)
    proposal = expansion(isr, 3)
    assert proposal is not None

    assert isr.settle(proposal, error) is is_retried
    assert isr.is_pending(proposal) is still_pending
    assert (3 in isr.maximal) is still_pending, "what may have been done counts as done"


# ---- low watermark -------------------------------------------------------------------------------


def test_the_low_watermark_is_the_least_start_of_living_replicas() -> None:
    isr = isr_of()
    isr.followers[2].log_start_offset = 5
    isr.followers[3].log_start_offset = 2

    assert isr.low_watermark(9, lambda _: True) == 2
    assert isr.low_watermark(9, lambda one: one != 3) == 5
    assert isr.low_watermark(3, lambda one: one != 3) == 3


# ---- against a simple model ----------------------------------------------------------------------

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("fetch"), st.integers(2, 4), st.integers(0, 5)),
        st.tuples(st.just("pass"), st.integers(0, LAG_MS)),
        st.tuples(st.just("commit"), st.booleans()),
    ),
    max_size=60,
)


@given(_STEPS)
def test_nothing_below_the_high_watermark_is_missing_from_any_isr_the_controller_may_have(
    steps: list[tuple[str, int] | tuple[str, int, int]],
) -> None:
    """The controller may have applied the pending change or not; in both cases its ISR has all records."""
    isr = isr_of(isr=(1, 2, 3, 4), replicas=(1, 2, 3, 4))
    has = {2: 0, 3: 0, 4: 0}
    end, now_ms, high_watermark, partition_epoch = 0, 0, 0, 7
    for name, *arguments in steps:
        if name == "append":
            end += arguments[0]
        elif name == "fetch":
            replica_id, count = arguments
            has[replica_id] = min(end, has[replica_id] + count)
            fetched(isr, replica_id, has[replica_id], end=end, now_ms=now_ms)
            expansion(isr, replica_id, high_watermark=high_watermark)
        elif name == "pass":
            now_ms += arguments[0]
            shrinking(isr, end=end, now_ms=now_ms)
        elif isr.pending is not None:
            if arguments[0]:
                partition_epoch += 1
                isr.update(
                    partition_epoch=partition_epoch,
                    replicas=(1, 2, 3, 4),
                    in_sync_replicas=[one for one, _ in isr.pending.isr],
                    now_ms=now_ms,
                )
            else:
                isr.settle(isr.pending, ErrorCode.INELIGIBLE_REPLICA)
        allowed = watermark(isr, end=end, now_ms=now_ms)
        high_watermark = max(high_watermark, allowed)

        possible = [isr.committed] + ([] if isr.pending is None else [tuple(isr.pending.broker_ids)])
        for members in possible:
            assert all(has[one] >= high_watermark for one in members if one != LEADER)
