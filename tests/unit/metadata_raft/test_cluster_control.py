"""Brokers register, heartbeat, fall silent and leave."""

from itertools import product
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.metadata_raft.broker_sessions import NEW_CONTROLLER_GRACE_MS, RECONNECT_GRACE_MS
from ottla.metadata_raft.cluster_control import MOVES, BrokerControlState
from ottla.metadata_raft.commands import (
    BrokerConnectionLost,
    BrokerHeartbeat,
    CreateTopics,
    RegisterBroker,
    UnregisterBroker,
)
from ottla.metadata_raft.controller import Controller
from ottla.metadata_raft.delta import MetadataDelta
from ottla.metadata_raft.image import PartitionImage
from ottla.metadata_raft.records import (
    NO_LEADER,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    UnregisterBrokerRecord,
)
from tests.unit.metadata_raft.metadata_world import CONFIG, MetadataWorld, log_dir_id

HOST, NEXT_BOOT = b"its first boot..", b"its second boot."
TIMEOUT_MS = CONFIG.broker_session_timeout_ms


def with_topic(*replicas: int, brokers: int = 3, **configs: str) -> MetadataWorld:
    """Return a world of brokers and the topic t with one partition on these replicas."""
    world = MetadataWorld(brokers=brokers)
    topic = world.topic("t", assignments=[(0, replicas)], configs=list(configs.items()))
    world.submit(CreateTopics(topics=[topic]))
    return world


def partition(world: MetadataWorld) -> PartitionImage:
    return world.image.topics.by_name["t"].partitions[0]


def register(world: MetadataWorld, broker_id: int, *log_dirs: bytes, incarnation: bytes = b"") -> None:
    world.submit(
        RegisterBroker(
            broker_id=broker_id,
            incarnation_id=incarnation or world.uuid(),
            listeners=[BrokerEndpoint(name="PLAINTEXT", host="h", port=1)],
            log_dirs=log_dirs,
        )
    )


# ---- registration ------------------------------------------------------------------------------------------


def test_a_second_broker_with_the_same_id_is_rejected_while_the_first_is_alive() -> None:
    world = MetadataWorld(brokers=2)

    with pytest.raises(KafkaError) as refused:
        register(world, 1, b"elsewhere on hos")

    assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_second_broker_with_the_same_id_is_accepted_when_the_session_of_the_first_has_expired() -> None:
    world = MetadataWorld(brokers=2)
    old_epoch = world.image.brokers[1].broker_epoch
    world.now_ms += TIMEOUT_MS + 1

    register(world, 1, b"elsewhere on hos")

    broker = world.image.brokers[1]
    assert broker.fenced and broker.broker_epoch > old_epoch


def test_a_process_with_a_directory_of_the_previous_run_replaces_it_at_once() -> None:
    world = with_topic(1, 2)

    register(world, 1, log_dir_id(1, 0))

    assert world.image.brokers[1].fenced
    assert (partition(world).leader, partition(world).isr) == (2, (2,))


def test_an_incarnation_that_registers_again_keeps_its_state_and_epoch() -> None:
    world = MetadataWorld()
    before = world.image.brokers[0]
    register(world, 0, *before.log_dirs, incarnation=before.incarnation_id)
    after = world.image.brokers[0]
    version = world.image.version

    register(world, 0, *before.log_dirs, incarnation=before.incarnation_id)

    assert after.listeners["PLAINTEXT"].host == "h"
    assert (after.broker_epoch, after.fenced) == (before.broker_epoch, False)
    assert world.image.version == version, "nothing new, nothing written"


@pytest.mark.parametrize(
    "log_dirs",
    [(), (bytes(16),), (b"one-and-the-same",) * 2, (log_dir_id(0, 0),)],
    ids=["none", "reserved", "twice", "another broker's"],
)
def test_invalid_directories_are_rejected(log_dirs: tuple[bytes, ...]) -> None:
    world = MetadataWorld(brokers=1)

    with pytest.raises(KafkaError) as refused:
        register(world, 7, *log_dirs)

    assert refused.value.code is ErrorCode.INVALID_REGISTRATION


def test_a_broker_too_old_for_the_cluster_is_rejected() -> None:
    world = MetadataWorld(brokers=1)
    world.raise_feature("some.feature", 2)
    features = [BrokerFeature(name="some.feature", min_supported_version=0, max_supported_version=1)]

    with pytest.raises(KafkaError) as refused:
        world.submit(
            RegisterBroker(broker_id=7, incarnation_id=b"i" * 16, log_dirs=[b"d" * 16], features=features)
        )

    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


# ---- heartbeats --------------------------------------------------------------------------------------------


def test_a_broker_is_unfenced_when_it_has_applied_its_own_registration() -> None:
    world = MetadataWorld(brokers=1)
    epoch = world.start_broker(1, unfence=False)

    behind = world.heartbeat(1, current_metadata_offset=epoch - 1)
    fenced_then = world.image.brokers[1].fenced
    ahead = world.heartbeat(1, current_metadata_offset=epoch)

    assert (behind.is_caught_up, behind.is_fenced, fenced_then) == (False, True, True)
    assert (ahead.is_caught_up, ahead.is_fenced) == (True, False)
    assert not world.image.brokers[1].fenced


def test_heartbeats_are_not_written() -> None:
    world = MetadataWorld(brokers=2)
    version = world.image.version

    for broker_id in (0, 1, 0):
        world.heartbeat(broker_id)

    assert world.image.version == version


def test_a_heartbeat_of_a_replaced_process_is_rejected() -> None:
    world = MetadataWorld(brokers=1)

    for broker_id in (0, 9):
        with pytest.raises(KafkaError) as refused:
            world.submit(BrokerHeartbeat(broker_id=broker_id, broker_epoch=-1))
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_that_wants_to_be_fenced_is_fenced() -> None:
    world = with_topic(1, 2)

    reply = world.heartbeat(1, want_fence=True)

    assert reply.is_fenced and not reply.should_shut_down
    assert world.image.brokers[1].fenced and partition(world).leader == 2


# ---- silence -----------------------------------------------------------------------------------------------


def test_silent_brokers_are_fenced_after_the_session_timeout_one_at_a_time() -> None:
    world = with_topic(1, 2, 0)
    world.now_ms += TIMEOUT_MS
    world.heartbeat(0)
    at_the_timeout = world.tick()
    world.now_ms += 1

    ticks = [world.tick() for _ in range(3)]
    world.heartbeat(0)

    assert not at_the_timeout and ticks == [True, True, False]
    assert [world.image.brokers[broker_id].fenced for broker_id in range(3)] == [False, True, True]
    assert (partition(world).leader, partition(world).isr) == (0, (0,))


def test_a_controller_knows_when_the_next_session_ends() -> None:
    world = with_topic(1, 2)
    world.tick()  # the first check for unclean elections
    world.now_ms += 100
    for broker_id in (0, 2):
        world.heartbeat(broker_id)
    first_silent = world.controller.next_tick_ms()
    world.submit(BrokerConnectionLost(broker_id=2, broker_epoch=world.image.brokers[2].broker_epoch))
    first_lost = world.controller.next_tick_ms()

    assert first_silent == world.now_ms - 100 + TIMEOUT_MS + 1
    assert first_lost == world.now_ms + RECONNECT_GRACE_MS + 1


def test_a_broker_whose_metadata_does_not_advance_stays_fenced() -> None:
    """Its metadata log may be on a disk that hangs, and then it would not learn that it leads."""
    world = with_topic(1, 2)
    offset = world.image.version
    world.heartbeat(1, current_metadata_offset=offset)
    world.now_ms += TIMEOUT_MS + 1
    world.heartbeat(2)
    while world.tick():
        pass

    world.heartbeat(1, current_metadata_offset=offset)
    stuck = world.image.brokers[1].fenced
    world.heartbeat(1)

    assert stuck and not world.image.brokers[1].fenced


def test_the_last_replica_in_sync_keeps_its_place_and_leads_again() -> None:
    world = with_topic(1)
    world.now_ms += TIMEOUT_MS + 1
    world.heartbeat(0)
    world.heartbeat(2)
    world.tick()
    leaderless = partition(world)

    world.heartbeat(1)

    assert (leaderless.leader, leaderless.isr) == (NO_LEADER, (1,))
    assert (partition(world).leader, partition(world).leader_epoch) == (1, leaderless.leader_epoch + 1)


def test_a_dropped_connection_is_fenced_after_a_short_grace() -> None:
    world = with_topic(1, 2)
    epoch = world.image.brokers[1].broker_epoch
    world.submit(BrokerConnectionLost(broker_id=1, broker_epoch=epoch))
    world.now_ms += RECONNECT_GRACE_MS
    within = world.tick()
    world.now_ms += 1

    assert not within and world.tick()
    world.heartbeat(2)

    assert partition(world).leader == 2


def test_a_process_that_is_gone_is_fenced_at_once() -> None:
    world = with_topic(1, 2)
    epoch = world.image.brokers[1].broker_epoch

    world.submit(BrokerConnectionLost(broker_id=1, broker_epoch=epoch, is_gone=True))

    assert world.tick()
    world.heartbeat(2)
    assert partition(world).leader == 2


def test_the_last_in_sync_leads_alone_when_it_is_heard_after_the_others_failed() -> None:
    """It may have just lost its power, and with it records that the failed broker still has."""
    world = with_topic(1, 2)
    epoch = world.image.brokers[1].broker_epoch
    world.submit(BrokerConnectionLost(broker_id=1, broker_epoch=epoch, is_gone=True))
    world.tick()
    unsure = partition(world)

    world.heartbeat(2)

    assert (unsure.leader, unsure.isr) == (NO_LEADER, (1, 2))
    assert (partition(world).leader, partition(world).isr) == (2, (2,))


def test_a_leader_that_may_have_lost_its_power_does_not_remove_a_follower_that_failed() -> None:
    world = with_topic(1, 2)
    epoch = world.image.brokers[2].broker_epoch
    world.submit(BrokerConnectionLost(broker_id=2, broker_epoch=epoch, is_gone=True))
    world.tick()
    unsure = partition(world)

    world.start_broker(1, page_cache_id=NEXT_BOOT)
    lost = partition(world)
    world.start_broker(2)

    assert (unsure.leader, unsure.isr) == (1, (1, 2))
    assert (lost.leader, lost.isr) == (NO_LEADER, (2,))
    assert partition(world).leader == 2


def test_a_broker_that_may_have_lost_its_power_is_not_elected_when_another_starts() -> None:
    world = with_topic(1, 2, 0)
    for broker_id in (0, 1):
        epoch = world.image.brokers[broker_id].broker_epoch
        world.heartbeat(1)
        world.heartbeat(2)
        world.submit(BrokerConnectionLost(broker_id=broker_id, broker_epoch=epoch, is_gone=True))
        world.tick()

    world.start_broker(0)

    assert (partition(world).leader, partition(world).isr) == (NO_LEADER, (1, 2))


def test_with_two_others_alive_the_next_one_leads_at_once() -> None:
    world = with_topic(1, 2, 0)
    epoch = world.image.brokers[1].broker_epoch
    world.submit(BrokerConnectionLost(broker_id=1, broker_epoch=epoch, is_gone=True))

    assert world.tick()

    assert (partition(world).leader, partition(world).isr) == (2, (2, 0))


def test_a_broker_that_comes_back_in_time_stays() -> None:
    world = with_topic(1, 2)
    lost = BrokerConnectionLost(broker_id=1, broker_epoch=world.image.brokers[1].broker_epoch)
    world.submit(lost)
    world.heartbeat(1)
    world.now_ms += RECONNECT_GRACE_MS + 1

    assert not world.tick()


def test_a_lost_connection_of_a_previous_run_does_not_concern_the_next() -> None:
    world = MetadataWorld(brokers=2)
    lost = BrokerConnectionLost(broker_id=1, broker_epoch=world.image.brokers[1].broker_epoch)
    world.start_broker(1)

    world.submit(lost)
    world.submit(BrokerConnectionLost(broker_id=9, broker_epoch=1))
    world.now_ms += RECONNECT_GRACE_MS + 1

    assert not world.tick()


def test_a_new_controller_gives_every_broker_a_new_session() -> None:
    world = MetadataWorld(brokers=2)
    world.now_ms += TIMEOUT_MS * 5
    world.controller = Controller(world.image, CONFIG)
    world.controller.activate(world.image, world.now_ms)
    world.now_ms += TIMEOUT_MS

    before = world.tick()
    world.now_ms += 1

    assert not before and world.tick()


def test_a_broker_lost_before_the_controller_took_over_gets_a_short_session() -> None:
    """One such broker is the node that led the quorum until it died."""
    world = with_topic(1, 2)
    world.now_ms += 10_000
    world.controller.activate(world.image, world.now_ms, {1: world.now_ms - 5_000, 2: world.now_ms - 5_000})
    world.heartbeat(2)
    world.now_ms += NEW_CONTROLLER_GRACE_MS

    before = world.tick()
    world.now_ms += 1

    assert not before and world.tick() and not world.tick()
    world.heartbeat(2)
    assert partition(world).leader == 2


# ---- failovers ---------------------------------------------------------------------------------------------


def failover(world: MetadataWorld) -> None:
    """Let another node lead the quorum, which has heard of no broker yet."""
    world.controller = Controller(world.image, CONFIG)
    world.controller.activate(world.image, world.now_ms)


def test_a_broker_that_comes_back_while_the_others_are_disconnected_waits_for_them() -> None:
    """It may have lost the end of its log with its power; the others, fenced meanwhile, may not."""
    world = with_topic(0, 1, 2)
    failover(world)
    world.now_ms += TIMEOUT_MS + 1
    while world.tick():
        pass

    world.start_broker(1)
    waiting = partition(world)
    world.heartbeat(2)

    assert (waiting.leader, waiting.isr) == (NO_LEADER, (0, 2))
    assert (partition(world).leader, partition(world).isr) == (2, (2,))


def test_when_all_fall_silent_the_isr_stays() -> None:
    world = with_topic(0, 1, 2)
    world.now_ms += TIMEOUT_MS + 1

    while world.tick():
        pass

    assert all(broker.fenced for broker in world.image.brokers.values())
    assert (partition(world).leader, partition(world).isr) == (NO_LEADER, (0, 1, 2))
    world.heartbeat(2)
    assert (partition(world).leader, partition(world).isr) == (2, (2,))


def test_brokers_that_failed_before_their_leader_was_heard_leave_the_isr() -> None:
    world = with_topic(0, 1, 2)
    failover(world)
    epoch = world.image.brokers[1].broker_epoch
    world.submit(BrokerConnectionLost(broker_id=1, broker_epoch=epoch))
    world.now_ms += RECONNECT_GRACE_MS + 1
    world.tick()
    unsure = partition(world)

    world.heartbeat(0)

    assert (unsure.leader, unsure.isr) == (0, (0, 1, 2)), "0 and 2 have not been heard of"
    assert (partition(world).leader, partition(world).isr) == (0, (0, 2))


def test_a_broker_that_failed_before_its_leader_was_heard_does_not_return_to_the_isr() -> None:
    """It may have lost the end of its log with its power, and the leader is alive."""
    world = with_topic(0, 1, 2)
    failover(world)
    epoch = world.image.brokers[1].broker_epoch
    world.submit(BrokerConnectionLost(broker_id=1, broker_epoch=epoch, is_gone=True))
    world.now_ms += 1
    world.tick()
    unsure = partition(world)

    world.start_broker(1)

    assert (unsure.leader, unsure.isr) == (0, (0, 1, 2)), "0 and 2 have not been heard of"
    assert (partition(world).leader, partition(world).isr) == (0, (0, 2))


def test_an_unregistered_broker_leaves_the_isr_even_if_no_other_is_up() -> None:
    world = with_topic(1, 2)
    for broker_id in (1, 2):
        world.start_broker(broker_id, unfence=False)
    failover(world)
    world.start_broker(1, unfence=False)

    world.submit(UnregisterBroker(broker_id=1))

    assert 1 not in partition(world).isr


# ---- data that is left of the previous run of a broker -----------------------------------------------------


def all_fail(page_cache_id: bytes = HOST) -> MetadataWorld:
    """Return a world in which every broker of t ran on a host with this page cache id, and then ended."""
    world = MetadataWorld(brokers=0)
    for broker_id in (0, 1, 2):
        world.start_broker(broker_id, page_cache_id=page_cache_id)
    world.submit(CreateTopics(topics=[world.topic("t", assignments=[(0, (0, 1, 2))])]))
    failover(world)
    return world


def return_alone(world: MetadataWorld, **fields: Any) -> None:
    """Let broker 1 come back, and the sessions of all others expire."""
    world.start_broker(1, **fields)
    world.now_ms += TIMEOUT_MS + 1
    world.heartbeat(1)
    while world.tick():
        pass
    world.heartbeat(1)


def test_after_all_were_killed_the_first_that_returns_leads_if_its_host_did_not_restart() -> None:
    world = all_fail()

    return_alone(world, page_cache_id=HOST)

    assert (partition(world).leader, partition(world).isr) == (1, (1,))


def test_after_all_lost_power_the_first_that_returns_does_not_lead() -> None:
    world = all_fail()

    return_alone(world, page_cache_id=NEXT_BOOT)

    assert (partition(world).leader, partition(world).isr) == (NO_LEADER, (0, 2))


def test_a_broker_whose_host_did_not_restart_leaves_the_isr_if_two_others_are_alive() -> None:
    world = all_fail()
    world.heartbeat(0)
    world.heartbeat(2)

    world.start_broker(1, page_cache_id=HOST)

    assert (partition(world).leader, partition(world).isr) == (0, (0, 2))


def test_a_broker_whose_host_did_not_restart_stays_if_one_other_may_have_lost_its_power() -> None:
    world = all_fail()
    world.heartbeat(0)

    world.start_broker(1, page_cache_id=HOST)

    assert (partition(world).leader, partition(world).isr) == (0, (0, 1, 2))


def test_a_host_without_a_page_cache_id_proves_nothing() -> None:
    world = all_fail(page_cache_id=ZERO_UUID)

    return_alone(world, page_cache_id=ZERO_UUID)

    assert 1 not in partition(world).isr


def test_a_clean_shutdown_proves_as_much_as_the_same_host() -> None:
    world = all_fail()
    epoch = world.image.brokers[1].broker_epoch

    return_alone(world, page_cache_id=NEXT_BOOT, previous_broker_epoch=epoch)

    assert partition(world).leader == 1


def test_the_clean_shutdown_of_an_earlier_process_proves_nothing() -> None:
    world = all_fail()
    first = world.image.brokers[1].broker_epoch
    world.start_broker(1, page_cache_id=HOST)
    failover(world)

    return_alone(world, page_cache_id=NEXT_BOOT, previous_broker_epoch=first)

    assert 1 not in partition(world).isr


def test_a_directory_that_was_not_there_before_proves_nothing() -> None:
    """It may have failed, and lost the writes that were in progress."""
    world = all_fail()

    return_alone(world, page_cache_id=HOST, log_dirs=2)

    assert 1 not in partition(world).isr


# ---- shutdown ----------------------------------------------------------------------------------------------


def test_a_broker_that_shuts_down_hands_over_its_leaderships_first() -> None:
    world = with_topic(1, 2)

    first = world.heartbeat(1, want_shut_down=True)
    world.heartbeat(0, current_metadata_offset=world.image.version - 1)
    waiting = world.heartbeat(1, want_shut_down=True)
    world.heartbeat(0)
    world.heartbeat(2)
    last = world.heartbeat(1, want_shut_down=True)

    assert first.is_in_controlled_shutdown and not first.should_shut_down
    assert not waiting.should_shut_down, (
        "a broker that does not know the new leader would still send to the old"
    )
    assert last.should_shut_down and world.image.brokers[1].fenced
    assert (partition(world).leader, partition(world).isr) == (2, (2,))


def test_a_broker_that_leads_nothing_may_shut_down_at_once() -> None:
    world = with_topic(1, 2)

    assert world.heartbeat(0, want_shut_down=True).should_shut_down
    assert world.image.brokers[0].fenced
    assert world.heartbeat(0, want_shut_down=True).should_shut_down, "a fenced one too"


def test_a_run_that_has_begun_to_shut_down_is_not_unfenced_again() -> None:
    world = with_topic(1, 2)
    for broker_id in (1, 0, 2, 1):
        world.heartbeat(broker_id, want_shut_down=broker_id == 1)
    assert world.image.brokers[1].fenced

    reply = world.heartbeat(1)

    assert reply.is_fenced and world.image.brokers[1].fenced


def test_the_last_broker_may_shut_down_without_a_successor() -> None:
    world = with_topic(0, brokers=1)

    first = world.heartbeat(0, want_shut_down=True)
    second = world.heartbeat(0, want_shut_down=True)

    assert (first.should_shut_down, second.should_shut_down) == (False, True)
    assert (partition(world).leader, partition(world).isr) == (NO_LEADER, (0,))


def test_a_shutdown_survives_a_change_of_the_controller() -> None:
    world = with_topic(1, 2)
    world.heartbeat(1, want_shut_down=True)
    world.controller = Controller(world.image, CONFIG)
    world.controller.activate(world.image, world.now_ms)

    too_early = world.heartbeat(1, want_shut_down=True)
    world.heartbeat(0)
    world.heartbeat(2)

    assert not too_early.should_shut_down
    assert world.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_record_that_changes_a_broker_after_its_removal_contradicts_the_metadata() -> None:
    """Also if both records are applied together, as a voter does that is far behind."""
    world = MetadataWorld(brokers=1)
    broker_epoch = world.image.brokers[0].broker_epoch
    delta = MetadataDelta(world.image)
    delta.replay(UnregisterBrokerRecord(broker_id=0, broker_epoch=broker_epoch))

    with pytest.raises(KafkaError) as refused:
        delta.replay(
            BrokerRegistrationChangeRecord(broker_id=0, broker_epoch=broker_epoch, in_controlled_shutdown=1)
        )

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_broker_that_is_unregistered_leaves_isrs_but_stays_a_replica() -> None:
    world = with_topic(1, 2)

    world.submit(UnregisterBroker(broker_id=1))

    assert 1 not in world.image.brokers
    assert (partition(world).leader, partition(world).isr, partition(world).replicas) == (2, (2,), (1, 2))
    with pytest.raises(KafkaError) as refused:
        world.submit(UnregisterBroker(broker_id=1))
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_broker_that_stops_right_after_a_failover_gives_its_partitions_to_the_first_that_is_heard() -> None:
    """A broker that the new controller has not heard of may have restarted and lost unsynced records."""
    world = with_topic(1, 2)
    failover(world)

    world.heartbeat(1, want_shut_down=True)
    at_once = partition(world).leader
    world.heartbeat(2)

    assert at_once == NO_LEADER
    assert (partition(world).leader, partition(world).isr) == (2, (2,))


# ---- the table of moves ------------------------------------------------------------------------------------

FENCED, UNFENCED, LEAVING, GONE = BrokerControlState
LEGAL = {
    *((FENCED, after) for after in (FENCED, UNFENCED, GONE)),
    *((UNFENCED, after) for after in (FENCED, UNFENCED, LEAVING, GONE)),
    *((LEAVING, after) for after in (LEAVING, GONE)),
}


def world_with(state: BrokerControlState, *, leads: bool) -> MetadataWorld:
    """Return a world of three brokers, with broker 1 in this state; it leads a partition, or did before."""
    world = with_topic(1, 2) if leads else MetadataWorld(brokers=3)
    if state is FENCED:
        world.heartbeat(1, want_fence=True)
    elif state is LEAVING:
        world.heartbeat(1, want_shut_down=True)
    return world


def test_the_table_has_these_moves_and_no_others() -> None:
    assert {(before, after) for before, states in MOVES.items() for after in states} == LEGAL


def test_heartbeats_make_each_move_of_the_table() -> None:
    made = set()

    for before, leads, others_know, fence, stop in product(MOVES, *[(False, True)] * 4):
        if before is LEAVING and not leads:
            continue  # it shuts down at once
        world = world_with(before, leads=leads)
        if others_know:
            world.heartbeat(0)
            world.heartbeat(2)
        reply = world.heartbeat(1, want_fence=fence, want_shut_down=stop)
        after = {reply.is_in_controlled_shutdown: LEAVING, reply.is_fenced: FENCED}.get(True, UNFENCED)
        made.add((before, GONE if reply.should_shut_down else after))

    assert made == LEGAL
