"""EndTxn of clients of both protocols, in every state, with every epoch.

The rules are those of the TransactionCoordinator of 4.3.1; where ours differ, the case says so.
"""

import pytest

from ottla.groupcoord.transactions.transaction import CLIENT_V1, CLIENT_V2, ProducerPair
from ottla.groupcoord.transactions.transaction_commands import LevelChanged
from ottla.groupcoord.transactions.transaction_effects import MarkerJob
from ottla.groupcoord.transactions.transaction_state import TransactionState
from ottla.logstore.words.errors import ErrorCode as E
from tests.unit.groupcoord.transactions.states import (
    IN_LOG,
    OTHER_ID,
    PREPARED,
    PREVIOUS_ID,
    PRODUCER_ID,
    S,
    at,
)
from tests.unit.groupcoord.transactions.transaction_world import (
    FIRST_PRODUCER_ID,
    ID,
    P0,
    P1,
    START_MS,
    TransactionWorld,
)

OK, ENDS = "the first answer again", "the end of the transaction"
FENCED, WRONG, OTHER, BUSY = (
    E.PRODUCER_FENCED,
    E.INVALID_TXN_STATE,
    E.INVALID_PRODUCER_ID_MAPPING,
    E.CONCURRENT_TRANSACTIONS,
)
# State -> the answers to a client of version 1 with the right pair: to a commit, to an abort. For PrepareX
# Kafka has rows of its own, which no client sees: its coordinator answers CONCURRENT_TRANSACTIONS before it
# looks at them.
VERSION_1: dict[TransactionState, tuple[object, object]] = {
    S.EMPTY: (WRONG, WRONG),
    S.ONGOING: (ENDS, ENDS),
    S.PREPARE_COMMIT: (BUSY, BUSY),
    S.PREPARE_ABORT: (BUSY, BUSY),
    S.COMPLETE_COMMIT: (OK, WRONG),
    S.COMPLETE_ABORT: (WRONG, OK),
}
# The pair of the client, in a state of epoch 5 -> the answers to a client of version 2.
CURRENT, RETRY, NEWER = (PRODUCER_ID, 5), (PRODUCER_ID, 4), (PRODUCER_ID, 6)
OLDER, OTHER_PRODUCER = (PRODUCER_ID, 3), (OTHER_ID, 5)
VERSION_2: dict[tuple[TransactionState, tuple[int, int]], tuple[object, object]] = {
    (S.EMPTY, CURRENT): (WRONG, ENDS),
    (S.EMPTY, RETRY): (FENCED, FENCED),
    (S.ONGOING, CURRENT): (ENDS, ENDS),
    (S.ONGOING, RETRY): (FENCED, FENCED),
    (S.COMPLETE_COMMIT, CURRENT): (WRONG, ENDS),
    (S.COMPLETE_COMMIT, RETRY): (OK, WRONG),
    (S.COMPLETE_ABORT, CURRENT): (WRONG, ENDS),
    (S.COMPLETE_ABORT, RETRY): (FENCED, OK),  # KAFKA-20785: 4.3.1 has INVALID_TXN_STATE for the commit
}


def check_end(
    world: TransactionWorld, pair: tuple[int, int], version: int, committed: bool, expected: object
) -> None:
    before, records = world.current(), len(world.log)

    seen = world.end(pair, version=version, committed=committed)

    if expected == ENDS:
        assert isinstance(seen, ProducerPair) and len(world.log) > records
        assert seen == (PRODUCER_ID, pair[1] + (version == CLIENT_V2))
    elif expected == OK:
        assert seen == before.pair and world.current() is before
    else:
        assert seen is expected and world.current() is before


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("state", IN_LOG)
def test_a_client_of_version_1_ends_a_transaction_as_the_table_says(
    state: TransactionState, committed: bool
) -> None:
    def world() -> TransactionWorld:
        made = TransactionWorld()
        made.put(at(state))
        return made

    check_end(world(), CURRENT, CLIENT_V1, committed, VERSION_1[state][not committed])
    for pair in (RETRY, NEWER, OLDER):
        check_end(world(), pair, CLIENT_V1, committed, FENCED)
    check_end(world(), OTHER_PRODUCER, CLIENT_V1, committed, OTHER)
    check_end(world(), (OTHER_ID, 4), CLIENT_V1, committed, OTHER)


@pytest.mark.parametrize("pair", [CURRENT, RETRY, NEWER, OLDER, OTHER_PRODUCER, (PREVIOUS_ID, 32_766)])
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("state", IN_LOG)
def test_a_client_of_version_2_ends_a_transaction_as_the_table_says(
    state: TransactionState, committed: bool, pair: tuple[int, int]
) -> None:
    world = TransactionWorld()
    world.put(at(state))
    expected = VERSION_2.get((state, pair))
    otherwise = OTHER if pair[0] != PRODUCER_ID else FENCED

    if state in PREPARED:  # for any client
        check_end(world, pair, CLIENT_V2, committed, BUSY)
    else:
        check_end(world, pair, CLIENT_V2, committed, expected[not committed] if expected else otherwise)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_only_a_coordinator_that_can_write_answers_that_there_is_nothing_to_commit(
    state: TransactionState,
) -> None:
    """Partition leaders begin transactions at the coordinator that they know, which may be the next one."""
    world = TransactionWorld()
    world.put(at(state))
    world.commits = False
    token = world.ask_end(CURRENT, version=CLIENT_V2, committed=True)
    assert world.seen(token) is None

    world.commit()

    assert world.seen(token) is WRONG and world.read[ID].state is state


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(
    ("version", "committed", "marker_epoch", "after"),
    [
        (CLIENT_V1, True, 5, S.COMPLETE_COMMIT),
        (CLIENT_V1, False, 5, S.COMPLETE_ABORT),
        (CLIENT_V2, True, 6, S.COMPLETE_COMMIT),
        (CLIENT_V2, False, 6, S.COMPLETE_ABORT),
    ],
)
def test_markers_carry_the_decision(
    level: int, version: int, committed: bool, marker_epoch: int, after: TransactionState
) -> None:
    """The client's request names its protocol, whatever the cluster's level is, as with Kafka."""
    world = TransactionWorld(level=level)
    world.put(at(S.ONGOING, partitions=(P1, P0)))
    world.now_ms += 10

    seen = world.end(CURRENT, version=version, committed=committed)

    assert world.jobs == [MarkerJob(ID, PRODUCER_ID, marker_epoch, 0, committed, version, (P0, P1))]
    world.now_ms += 10
    world.write_markers()
    done = world.current()
    assert done.state is after and done.pair == seen == (PRODUCER_ID, marker_epoch)
    assert (done.start_ms, done.last_update_ms, done.timeout_ms) == (START_MS, START_MS + 20, 60_000)
    assert done.client_version == version


def test_a_transaction_ends_with_the_last_epoch_of_its_id() -> None:
    """KAFKA-18660: the client goes on under another id, and is not fenced while its markers are written."""
    world = TransactionWorld()
    world.put(at(S.ONGOING, 32_765))

    assert world.end((PRODUCER_ID, 32_765), version=CLIENT_V2) == (PRODUCER_ID, 32_766)
    world.write_markers()
    assert world.add((PRODUCER_ID, 32_766), P0, client_version=CLIENT_V2) is E.NONE
    new = ProducerPair(FIRST_PRODUCER_ID, 0)
    assert world.end((PRODUCER_ID, 32_766), version=CLIENT_V2) == new

    assert world.jobs[0].marker_epoch == 32_767 and world.jobs[0].producer_id == PRODUCER_ID
    assert world.add(new, P0, client_version=CLIENT_V2) is E.CONCURRENT_TRANSACTIONS
    assert world.end((PRODUCER_ID, 32_766), version=CLIENT_V2) is E.CONCURRENT_TRANSACTIONS
    world.crash()
    world.write_markers()
    done = world.current()
    assert (done.pair, done.previous_producer_id, done.next_producer_id) == (new, PRODUCER_ID, -1)
    # The answer was lost: the previous id identifies the retry.
    assert world.end((PRODUCER_ID, 32_766), version=CLIENT_V2) == new
    assert world.end((PRODUCER_ID, 32_766), version=CLIENT_V2, committed=False) is WRONG
    assert world.end((PRODUCER_ID, 32_765), version=CLIENT_V2) is OTHER
    assert world.add(new, P0, client_version=CLIENT_V2) is E.NONE
    assert world.end((PRODUCER_ID, 32_766), version=CLIENT_V2) is OTHER


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
@pytest.mark.parametrize("epoch", [5, 32_766])
def test_to_abort_nothing_moves_the_epoch(state: TransactionState, epoch: int) -> None:
    world = TransactionWorld()
    world.put(at(state, epoch))
    world.now_ms += 10
    after = (PRODUCER_ID, 6) if epoch == 5 else (FIRST_PRODUCER_ID, 0)

    assert world.end((PRODUCER_ID, epoch), version=CLIENT_V2, committed=False) == after

    done = world.current()
    assert done.state is S.COMPLETE_ABORT and done.pair == after and not world.jobs
    assert done.start_ms == START_MS + 10 and len(world.log) == 3  # the state of the case, and two records
    assert world.end((PRODUCER_ID, epoch), version=CLIENT_V2, committed=False) == after


def test_a_transaction_of_no_partitions_is_complete_at_once() -> None:
    world = TransactionWorld()
    world.put(at(S.EMPTY))
    assert world.add(CURRENT) is E.NONE and world.state is S.ONGOING

    assert world.end(CURRENT) == CURRENT
    assert world.state is S.COMPLETE_COMMIT and not world.jobs


def test_answer_and_markers_wait_for_the_decision() -> None:
    world = TransactionWorld()
    world.put(at(S.ONGOING))
    world.commits = False

    token = world.ask_end(CURRENT)
    assert world.seen(token) is None and not world.jobs

    world.commit()
    assert world.seen(token) == CURRENT and len(world.jobs) == 1


def test_a_lost_decision_was_never_made() -> None:
    world = TransactionWorld()
    world.put(at(S.ONGOING))
    world.commits = False
    token = world.ask_end(CURRENT)

    world.crash()
    world.commits = True

    assert world.seen(token) is None and world.state is S.ONGOING and not world.jobs
    assert world.end(CURRENT, committed=False) == CURRENT


def test_a_retry_gets_its_answer_only_when_the_decision_is_safe() -> None:
    world = TransactionWorld()
    world.put(at(S.PREPARE_COMMIT))
    world.crash()
    world.commits = False
    world.write_markers(world.jobs[0] if world.jobs else MarkerJob(ID, PRODUCER_ID, 5, 1, True, 2, (P0,)))

    token = world.ask_end(RETRY, version=CLIENT_V2)
    assert world.state is S.COMPLETE_COMMIT and world.seen(token) is None
    world.commit()
    assert world.seen(token) == (PRODUCER_ID, 5)


def test_clients_of_both_protocols_may_take_turns() -> None:
    world = TransactionWorld()
    world.put(at(S.EMPTY))

    assert world.add(CURRENT, P0, client_version=CLIENT_V2) is E.NONE
    assert world.end(CURRENT, version=CLIENT_V1) == CURRENT
    world.write_markers()
    assert world.current().client_version == CLIENT_V1
    assert world.add(CURRENT, P0, client_version=CLIENT_V1) is E.NONE
    assert world.end(CURRENT, version=CLIENT_V2) == NEWER
    world.write_markers()
    assert world.end(CURRENT, version=CLIENT_V1) is FENCED
    assert world.end(CURRENT, version=CLIENT_V2) == NEWER  # as a retry


@pytest.mark.parametrize("committed", [True, False])
def test_a_zombie_of_the_new_protocol_is_no_retry_of_its_successor(committed: bool) -> None:
    """The successor uses the old protocol and ends its transaction one epoch above the zombie's.

    Kafka answers the zombie with the successor's pair.
    """
    world = TransactionWorld()
    world.put(at(S.COMPLETE_COMMIT))
    assert world.init() == NEWER
    assert world.add(NEWER, P0) is E.NONE
    assert world.end(NEWER, committed=committed) == NEWER
    world.write_markers()

    assert world.end(CURRENT, version=CLIENT_V2, committed=committed) is FENCED
    world.crash()
    assert world.end(CURRENT, version=CLIENT_V2, committed=committed) is FENCED


@pytest.mark.parametrize(("before", "after"), [(2, 0), (2, 1), (0, 2)])
def test_a_transaction_goes_on_when_the_level_changes(before: int, after: int) -> None:
    world = TransactionWorld(level=before)
    world.put(at(S.EMPTY))
    assert world.add(CURRENT, P0, client_version=CLIENT_V2) is E.NONE

    world.level = after
    world.handle(LevelChanged(level=after))
    assert world.end(CURRENT, version=CLIENT_V2) == NEWER
    world.crash()
    world.write_markers()

    assert world.state is S.COMPLETE_COMMIT and world.current().pair == NEWER
    assert world.coordinator.shard.level == after


# ---- the order of connections (KAFKA-17754) ----------------------------------------------------------------


def one_transaction(world: TransactionWorld, connection: int) -> None:
    assert world.add(CURRENT, P0) is E.NONE
    assert world.end(CURRENT, connection=connection) == CURRENT
    world.write_markers()


def test_a_copy_over_an_abandoned_connection_ends_nothing() -> None:
    world = TransactionWorld()
    world.put(at(S.EMPTY))
    one_transaction(world, connection=1)
    one_transaction(world, connection=7)
    assert world.add(CURRENT, P0) is E.NONE

    assert world.end(CURRENT, connection=1) == world.end(CURRENT, connection=6) == "closed"
    assert world.end(CURRENT, connection=1, committed=False) == "closed"
    assert world.state is S.ONGOING
    assert world.end(CURRENT, connection=7) == CURRENT


def test_a_client_that_got_its_answer_again_goes_on_from_that_connection() -> None:
    world = TransactionWorld()
    world.put(at(S.EMPTY))
    one_transaction(world, connection=1)
    assert world.end(CURRENT, connection=9) == CURRENT  # the answer of connection 1 was lost
    assert world.add(CURRENT, P0) is E.NONE

    assert world.end(CURRENT, connection=5) == "closed"
    assert world.end(CURRENT, connection=8) == "closed"
    assert world.end(CURRENT, connection=10) == CURRENT


def test_connections_are_compared_within_an_epoch() -> None:
    world = TransactionWorld()
    world.put(at(S.EMPTY))
    one_transaction(world, connection=9)
    assert world.init() == NEWER

    assert world.end(CURRENT, connection=1) is FENCED
    assert world.add(NEWER, P0) is E.NONE
    assert world.end(NEWER, connection=1) == NEWER  # after a restart the client has other connections


def test_another_coordinator_does_not_know_the_order_of_connections() -> None:
    world = TransactionWorld()
    world.put(at(S.EMPTY))
    one_transaction(world, connection=9)
    world.crash()
    assert world.add(CURRENT, P0) is E.NONE

    assert world.end(CURRENT, connection=1) == CURRENT


def test_clients_that_move_epochs_need_no_connections() -> None:
    world = TransactionWorld()
    world.put(at(S.EMPTY))
    one_transaction(world, connection=9)
    assert world.add(CURRENT, P0, client_version=CLIENT_V2) is E.NONE

    assert world.end(CURRENT, version=CLIENT_V2, connection=1) == NEWER
