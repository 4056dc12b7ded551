"""Scenarios of replicas: leaders change, logs diverge, disks are lost, and in the end all logs are equal."""

import asyncio
from dataclasses import replace

import pytest

from ottla.logstore.log_config import LogConfig
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.kafka_api import fetch
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.replica.follower_fetcher import MIN_REST_BYTES
from ottla.node.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.unit.node.replica.replica_cluster import LAG_MS, LATENCY_S, TOPIC_ID, Cluster, play
from tests.unit.node.replica.replica_world import CONNECTION

OK = ErrorCode.NONE


def test_acknowledged_records_are_on_all_replicas() -> None:
    async def scenario(cluster: Cluster) -> None:
        for _ in range(5):
            assert await cluster.nodes[1].acknowledged(3) is OK
        await cluster.settled()
        assert cluster.nodes[3].partition.log.log_end_offset == 15

    assert play(scenario).seconds < 1.0


def test_an_acknowledgement_takes_one_round_to_the_followers() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged() is OK
        await cluster.settled()
        began = asyncio.get_running_loop().time()
        assert await cluster.nodes[1].acknowledged() is OK
        # To the leader, and over an open connection back again.
        assert asyncio.get_running_loop().time() - began < 3.5 * LATENCY_S

    play(scenario)


def test_a_stopping_node_that_learns_of_another_leader_starts_no_fetch() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged() is OK
        cluster.nodes[2].stop()
        await asyncio.sleep(LATENCY_S)

        cluster.change(leader=3, isr=(1, 3))

        assert await cluster.nodes[3].acknowledged() is OK

    play(scenario)


def test_a_follower_that_takes_much_rests_while_its_disk_is_behind() -> None:
    large = bytes(MIN_REST_BYTES)

    async def scenario(cluster: Cluster) -> None:
        follower = cluster.nodes[2]
        await cluster.settled()
        follower.is_behind = True
        cluster.nodes[1].produce()
        cluster.nodes[1].produce(value=large)
        await asyncio.sleep(10 * LATENCY_S)
        assert follower.partition.log.log_end_offset == 2, "little is no reason to rest"
        cluster.nodes[1].produce()
        await asyncio.sleep(1)
        assert (follower.partition.log.log_end_offset, cluster.nodes[3].partition.log.log_end_offset) == (
            2,
            3,
        )

        follower.is_behind = False
        await asyncio.sleep(10 * LATENCY_S)

        assert follower.partition.log.log_end_offset == 3

    play(scenario)


# ---- leaders change ------------------------------------------------------------------------------


def test_a_record_that_only_the_old_leader_had_is_cut() -> None:  # KIP-101, scenario 1
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged(2) is OK
        cluster.cut(1)
        cluster.nodes[1].produce(3, value=b"lost")
        cluster.change(leader=2, isr=(2, 3))
        assert await cluster.nodes[2].acknowledged(1, value=b"kept") is OK
        cluster.heal()
        await cluster.settled()
        assert [epoch for _, epoch, _ in cluster.nodes[1].records()] == [0, 1]

    play(scenario)


def test_recovery_points_are_written_before_other_records_replace_cut_ones() -> None:
    async def scenario(cluster: Cluster) -> None:
        one, two = cluster.nodes[1], cluster.nodes[2]
        assert await one.acknowledged(2) is OK
        cluster.cut(1)
        one.produce(3, value=b"lost")
        one.partition.log.flush(now_ms=0)
        cluster.change(leader=2, isr=(2, 3))
        assert await two.acknowledged(1, value=b"kept") is OK
        one.sync_s = 3.0
        cluster.heal()
        await cluster.until(lambda: one.kept_recovery_points == [2])
        await asyncio.sleep(2)
        assert one.partition.log.log_end_offset == 2
        await cluster.settled()
        assert one.kept_recovery_points == [2] and one.partition.log.log_end_offset == 3
        assert not two.kept_recovery_points, "it lost nothing that was durable"

    play(scenario)


def test_offsets_that_both_wrote_are_the_new_leaders() -> None:  # KIP-101, scenario 2
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged() is OK
        cluster.cut(1)
        for _ in range(4):
            cluster.nodes[1].produce(1, value=b"old")
        cluster.change(leader=2, isr=(2, 3))
        for _ in range(4):
            assert await cluster.nodes[2].acknowledged(1, value=b"new") is OK
        assert cluster.nodes[1].partition.log.log_end_offset == cluster.nodes[2].partition.log.log_end_offset
        cluster.heal()
        await cluster.settled()

    play(scenario)


def test_leaders_in_quick_succession_leave_one_log() -> None:  # KIP-279
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged(5) is OK
        await cluster.settled()
        # Each writes in a leader epoch that the others do not learn of.
        cluster.cut(1, 2, 3)
        cluster.nodes[1].produce(4, value=b"a")
        cluster.change(leader=2)
        cluster.nodes[2].produce(2, value=b"b")
        cluster.change(leader=3)
        cluster.nodes[3].produce(1, value=b"c")
        cluster.change(leader=1)
        cluster.nodes[1].produce(1, value=b"d")
        cluster.change(leader=2)
        cluster.heal()
        await cluster.settled()
        assert [epoch for _, epoch, _ in cluster.nodes[2].records()] == [0, 1]
        assert await cluster.nodes[2].acknowledged() is OK
        await cluster.settled()

    play(scenario)


def test_a_leader_that_wrote_nothing_is_no_reason_to_cut() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged(5) is OK
        await cluster.settled()
        for leader in (2, 3, 1, 2):
            cluster.change(leader=leader)
            await cluster.settled()
        assert cluster.nodes[2].partition.log.log_end_offset == 5
        assert await cluster.nodes[2].acknowledged() is OK
        await cluster.settled()

    play(scenario)


def test_a_leader_that_does_not_know_that_it_lost_acknowledges_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged() is OK
        cluster.without_metadata.add(1)
        cluster.change(leader=2)
        assert await cluster.nodes[1].acknowledged(timeout_ms=3_000) is ErrorCode.REQUEST_TIMED_OUT
        assert cluster.nodes[1].partition.log.high_watermark == 1
        assert cluster.state.isr == (1, 2, 3)
        cluster.without_metadata.clear()
        cluster.publish()
        await cluster.settled()
        assert cluster.nodes[1].partition.log.log_end_offset == 1

    play(scenario)


def test_a_produce_that_waits_while_the_leader_changes_fails_at_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.cut(2, 3)
        waiting = asyncio.ensure_future(cluster.nodes[1].acknowledged(timeout_ms=60_000))
        await asyncio.sleep(0.1)
        cluster.change(leader=2, isr=(2, 3))
        assert await waiting is ErrorCode.NOT_LEADER_OR_FOLLOWER

    assert play(scenario).seconds < 1.0


def test_a_node_that_the_controller_does_not_hear_leads_nothing_until_it_is_heard() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged() is OK
        manager = cluster.nodes[1].world.replica_manager
        manager.fence()
        with pytest.raises(KafkaError):
            cluster.nodes[1].produce()
        manager.unfence()
        assert await cluster.nodes[1].acknowledged() is OK
        await cluster.settled()

    play(scenario)


def test_a_new_leader_that_learns_late_of_its_election_is_asked_again_soon() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.settled()
        cluster.without_metadata.add(2)
        cluster.change(leader=2)
        await asyncio.sleep(0.2)
        cluster.without_metadata.clear()
        cluster.publish()
        began = asyncio.get_running_loop().time()
        assert await cluster.nodes[2].acknowledged() is OK
        assert asyncio.get_running_loop().time() - began < 0.35

    play(scenario)


def test_a_follower_whose_fetch_waits_at_the_new_leader_does_not_wait_it_out() -> None:
    """The waiting fetch is answered at once, so that the next one can request the new partition."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.settled()
        for leader in (2, 1, 2):  # sessions with both nodes exist from here on
            cluster.change(leader=leader)
            await cluster.settled()
        began = asyncio.get_running_loop().time()
        cluster.change(leader=1)
        assert await cluster.nodes[1].acknowledged() is OK
        assert asyncio.get_running_loop().time() - began < 0.1

    play(scenario)


# ---- the ISR -------------------------------------------------------------------------------------


def test_a_follower_that_is_cut_off_leaves_the_isr_and_comes_back() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged() is OK
        cluster.cut(3)
        assert await cluster.nodes[1].acknowledged(timeout_ms=1_000) is ErrorCode.REQUEST_TIMED_OUT
        await cluster.until(lambda: cluster.state.isr == (1, 2), within_s=LAG_MS / 1000 + 2)
        assert await cluster.nodes[1].acknowledged() is OK
        cluster.heal()
        await cluster.settled()
        assert set(cluster.state.isr) == {1, 2, 3}

    play(scenario)


def test_an_isr_that_is_too_small_takes_no_acks_all() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged() is OK
        cluster.cut(2, 3)
        cluster.change(isr=(1,))
        with pytest.raises(KafkaError) as refused:
            cluster.nodes[1].produce()
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS

    play(scenario)


def test_a_produce_fails_if_its_isr_becomes_too_small() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.settled()
        cluster.cut(2, 3)
        code = await cluster.nodes[1].acknowledged(timeout_ms=60_000)
        assert code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert cluster.nodes[1].partition.log.high_watermark == 0
        cluster.heal()
        await cluster.settled()
        assert cluster.nodes[1].partition.log.high_watermark == 1

    play(scenario)


def test_an_idle_follower_is_not_removed_when_records_come_after_a_long_silence() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged() is OK
        await asyncio.sleep(10 * LAG_MS / 1000)
        cluster.nodes[1].produce()
        cluster.nodes[1].partition.check_isr()
        assert cluster.nodes[1].partition.isr is not None
        assert cluster.nodes[1].partition.isr.pending is None
        await cluster.settled()

    play(scenario)


# ---- disks and ranges ----------------------------------------------------------------------------


@pytest.mark.parametrize("loses_disk", [False, True])
def test_a_restarted_node_catches_up_and_joins_the_isr(loses_disk: bool) -> None:
    async def scenario(cluster: Cluster) -> None:
        for _ in range(20):
            assert await cluster.nodes[1].acknowledged(3) is OK
        cluster.restart(3, loses_disk=loses_disk)
        cluster.change(isr=(1, 2))
        assert await cluster.nodes[1].acknowledged() is OK
        await cluster.settled()

    play(scenario)


def test_a_follower_below_the_leaders_log_start_starts_again_there() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.settled()
        cluster.cut(3)
        cluster.change(isr=(1, 2))
        for _ in range(10):
            assert await cluster.nodes[1].acknowledged(2) is OK
        log = cluster.nodes[1].partition.log
        log.roll(now_ms=0)
        log.increment_log_start_offset(16)
        cluster.nodes[1].partition.log_start_moved()
        cluster.heal()
        await cluster.until(lambda: 3 in cluster.state.isr)
        follower = cluster.nodes[3].partition.log
        assert (follower.log_start_offset, follower.log_end_offset) == (16, 20)

    play(scenario)


def test_a_start_within_a_batch_is_copied_with_the_whole_batch() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.settled()
        cluster.cut(3)
        cluster.change(isr=(1, 2))
        assert await cluster.nodes[1].acknowledged(10) is OK
        assert await cluster.nodes[1].acknowledged(10) is OK
        cluster.nodes[1].partition.delete_records_before(13)
        cluster.heal()
        await cluster.until(lambda: 3 in cluster.state.isr)
        follower = cluster.nodes[3].partition.log
        await cluster.until(lambda: follower.log_start_offset == 13)
        assert (follower.segments[0].base_offset, follower.log_end_offset) == (10, 20)

    play(scenario)


def test_an_unclean_leader_truncates_the_others() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.settled()
        cluster.cut(3)
        cluster.change(isr=(1, 2))
        assert await cluster.nodes[1].acknowledged(6) is OK
        cluster.heal()
        cluster.change(leader=3, isr=(3,))
        await cluster.until(lambda: set(cluster.state.isr) == {1, 2, 3})
        assert [node.partition.log.log_end_offset for node in cluster.nodes.values()] == [0, 0, 0]
        assert await cluster.nodes[3].acknowledged() is OK
        await cluster.settled()

    play(scenario)


def test_bytes_damaged_on_the_way_are_rejected_and_fetched_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.settled()
        corrupted = 0

        def corrupt(answer: bytes) -> bytes:
            nonlocal corrupted
            at = answer.find(b"precious")
            if at < 0 or corrupted >= 4:
                return answer
            corrupted += 1
            return answer[:at] + b"Precious" + answer[at + 8 :]

        cluster.corrupt = corrupt
        assert await cluster.nodes[1].acknowledged(1, value=b"precious") is OK
        assert corrupted == 4
        await cluster.settled()
        reported = len(cluster.nodes[1].world.maintenance.scrub.requested)
        assert await cluster.nodes[1].acknowledged(1) is OK
        await cluster.settled()
        assert len(cluster.nodes[1].world.maintenance.scrub.requested) == reported, (
            "batches that arrived intact are not reported"
        )

    play(scenario)


def test_a_damaged_follower_leaves_the_isr_and_comes_back_when_it_is_repaired() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged(2) is OK
        await cluster.settled()
        follower = cluster.nodes[2]

        follower.partition.set_damaged(True)
        follower.replication.report_again(follower.partition.topic_partition)
        await cluster.until(lambda: set(cluster.state.isr) == {1, 3})

        assert await cluster.nodes[1].acknowledged(2) is OK
        await asyncio.sleep(30)
        assert set(cluster.state.isr) == {1, 3}, "it has all, and still does not count"
        assert follower.partition.log.log_end_offset == 4, "it goes on copying"
        follower.partition.set_damaged(False)
        follower.replication.report_again(follower.partition.topic_partition)
        await cluster.settled()
        assert set(cluster.state.isr) == {1, 2, 3}

    play(scenario)


def test_a_damaged_follower_stays_out_under_the_next_leader() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged(2) is OK
        await cluster.settled()
        follower = cluster.nodes[2]
        follower.partition.set_damaged(True)
        follower.replication.report_again(follower.partition.topic_partition)
        await cluster.until(lambda: set(cluster.state.isr) == {1, 3})

        cluster.change(leader=3)
        assert await cluster.nodes[3].acknowledged(2) is OK
        await asyncio.sleep(30)

        assert set(cluster.state.isr) == {1, 3}

    play(scenario)


def test_a_damaged_leader_gives_way_to_a_whole_replica_and_leaves_the_isr() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged(2) is OK
        await cluster.settled()
        damaged = cluster.nodes[1]
        cluster.nodes[2].partition.set_damaged(True)
        cluster.nodes[2].replication.report_again(damaged.partition.topic_partition)
        await cluster.until(lambda: 2 not in cluster.state.isr)

        damaged.partition.set_damaged(True)

        await cluster.until(lambda: cluster.state.leader == 3)
        await cluster.until(lambda: not damaged.partition.is_leader)
        assert cluster.state.isr == (3,), "replica 2 is damaged, too"
        assert not damaged.partition.may_leave_isr
        assert cluster.nodes[3].partition.has_enough_replicas() is False, "min.insync.replicas is 2"
        for one in (1, 2):
            cluster.nodes[one].partition.set_damaged(False)
            cluster.nodes[one].replication.report_again(damaged.partition.topic_partition)
        await cluster.settled()

    play(scenario)


def test_a_damaged_leader_without_a_whole_replica_in_sync_stays_and_acknowledges_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged(2) is OK
        await cluster.settled()
        cluster.cut(1)
        leader = cluster.nodes[1].partition
        cluster.nodes[1].produce()
        await cluster.until(lambda: cluster.state.isr == (1,), within_s=4 * LAG_MS / 1000)

        leader.set_damaged(True)
        await asyncio.sleep(10)

        assert (cluster.state.leader, cluster.state.isr) == (1, (1,)), "a damaged copy is better than none"
        assert not leader.may_leave_isr
        with pytest.raises(KafkaError, match="1 replicas in sync, 0 of them undamaged") as refused:
            cluster.nodes[1].produce()
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        cluster.heal()
        await cluster.until(lambda: cluster.state.leader != 1)

    play(scenario, config=LogConfig(min_insync_replicas=1))


def test_the_only_replica_goes_on_whatever_is_damaged() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.nodes[1].partition.set_damaged(True)
        assert await cluster.nodes[1].acknowledged(2) is OK

    play(scenario, count=1)


def test_a_leader_whose_own_bytes_are_wrong_is_named_by_its_followers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged(3) is OK
        await cluster.settled()
        cluster.cut(2)
        cluster.nodes[1].produce(value=b"precious")
        log = cluster.nodes[1].partition.log
        content = log.active_segment.file.read_at(0, log.active_segment.size_bytes)
        log.active_segment.file.write_at(content.index(b"precious"), [b"Precious"])
        cluster.heal()

        await cluster.until(lambda: "is damaged" in caplog.text)

        assert "The replica of t-0 on node 1, its leader, is damaged at or after offset 3" in caplog.text
        assert cluster.nodes[2].partition.log.log_end_offset == 3

        assert set(cluster.nodes[1].world.maintenance.scrub.requested) == {(TopicPartition("t", 0), 3)}, (
            "it was reported at once"
        )

    play(scenario)


def test_a_log_is_copied_step_by_step_with_small_responses() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.settled()
        cluster.max_bytes = 1_000
        cluster.cut(3)
        for size in (10, 5_000, 10, 900, 900):
            assert await cluster.nodes[1].acknowledged(1, value=bytes(size), timeout_ms=100) is not OK
        cluster.heal()
        await cluster.settled()

    play(scenario)


# ---- offsets that go with the records ------------------------------------------------------------


def test_deleted_records_are_gone_on_all_replicas() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged(10) is OK
        partition = cluster.nodes[1].partition
        offset = partition.delete_records_before(7)
        done = await cluster.nodes[1].world.replica_manager.delay_delete({partition: offset}, 5_000)
        assert done[partition] == (OK, 7)
        assert [node.partition.log.log_start_offset for node in cluster.nodes.values()] == [7, 7, 7]

    assert play(scenario).seconds < 1.0


def test_a_deletion_is_done_when_every_replica_has_it_on_its_disk() -> None:
    """A follower that is killed may come back and lead: deleted records must not come back with it."""

    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged(10) is OK
        partition = cluster.nodes[1].partition
        cluster.nodes[3].sync_s = 2.0
        offset = partition.delete_records_before(7)
        replicas = cluster.nodes[1].world.replica_manager

        done = await replicas.delay_delete({partition: offset}, 1_000)

        assert done[partition] == (ErrorCode.REQUEST_TIMED_OUT, 0)
        assert cluster.nodes[3].partition.log.log_start_offset == 7
        done = await replicas.delay_delete({partition: offset}, 5_000)
        assert done[partition] == (OK, 7)

    play(scenario)


def test_a_follower_joins_the_isr_once_it_has_deleted_the_deleted_records() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.settled()
        cluster.cut(3)
        cluster.change(isr=(1, 2))
        assert await cluster.nodes[1].acknowledged(10) is OK
        cluster.nodes[1].partition.delete_records_before(7)
        cluster.nodes[3].sync_s = 3.0
        cluster.heal()
        follower = cluster.nodes[3].partition.log

        await cluster.until(lambda: follower.log_end_offset == 10)
        await asyncio.sleep(2.0)

        assert cluster.state.isr == (1, 2)
        await cluster.until(lambda: 3 in cluster.state.isr)

    play(scenario)


def test_the_high_watermark_of_no_replica_falls() -> None:
    async def scenario(cluster: Cluster) -> None:
        highest = dict.fromkeys(cluster.node_ids, 0)

        def look() -> None:
            for node_id, node in cluster.nodes.items():
                high_watermark = node.partition.log.high_watermark
                assert high_watermark >= highest[node_id]
                highest[node_id] = high_watermark

        for leader in (1, 2, 3, 1, 3, 2):
            if leader != cluster.state.leader:
                cluster.change(leader=leader)
            for _ in range(4):
                cluster.nodes[leader].produce()
                look()
                await asyncio.sleep(0.002)
                look()
            await cluster.settled()
            look()

    play(scenario)


def test_a_partition_that_moves_away_takes_its_log_with_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged() is OK
        cluster.change(replicas=(1, 2), isr=(1, 2))
        assert cluster.nodes[3].world.log_manager.deleted == [("t", 0)]
        assert sum(len(one) for one in cluster.nodes[3].replication.fetchers) == 0
        assert await cluster.nodes[1].acknowledged() is OK

    play(scenario)


def _consume(cluster: Cluster, node_id: int, *, version: int = 12, rack: str = "") -> tuple[int, int, int]:
    """Return (error, bytes, preferred replica) of a consumer's fetch from that node."""
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        min_bytes=1,
        topics=[FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[wanted])],
        rack_id=rack,
    )
    context = RequestContext(1, version, 1, "consumer", CONNECTION)
    response = fetch.handle(cluster.nodes[node_id].world, context, request)  # type: ignore[arg-type]
    data = response.responses[0].partitions[0]
    return data.error_code, len(data.records or b""), data.preferred_read_replica


def test_followers_serve_consumers_what_is_committed() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged() is OK
        await cluster.settled()
        code, committed_bytes, _ = _consume(cluster, 3)
        assert code == OK
        assert committed_bytes > 0
        cluster.cut(2)
        cluster.nodes[1].produce()
        await cluster.until(lambda: cluster.nodes[3].partition.log.log_end_offset == 2)
        assert _consume(cluster, 3) == (OK, committed_bytes, -1), "2 has not got it"
        assert _consume(cluster, 3, version=10)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(scenario)


def test_trap_16_a_leader_that_names_a_replica_in_the_readers_rack_sends_no_records() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged() is OK
        await cluster.settled()
        world = cluster.nodes[1].world
        brokers = world.metadata.image.brokers
        for node_id, rack in ((1, "a"), (2, "b"), (3, "b")):
            brokers[node_id] = brokers[node_id]._replace(rack=rack)
        assert _consume(cluster, 1, rack="b")[2] == -1, "without a replica selector none is named"
        world.config = replace(
            world.config, replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector"
        )
        assert _consume(cluster, 1, rack="b") == (OK, 0, 3)
        assert _consume(cluster, 1, rack="a")[2] == -1
        assert _consume(cluster, 1, rack="elsewhere")[2] == -1
        assert _consume(cluster, 1)[2] == -1
        cluster.state = cluster.state._replace(isr=(1, 2))
        cluster.change()
        for node_id, rack in ((1, "a"), (2, "b"), (3, "b")):
            brokers = world.metadata.image.brokers
            brokers[node_id] = brokers[node_id]._replace(rack=rack)
        assert _consume(cluster, 1, rack="b")[2] == 2, "one that lags is not named"

    play(scenario)


def test_a_lone_leader_of_two_replicas_goes_on_alone() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.nodes[1].acknowledged() is OK
        cluster.cut(2)
        cluster.nodes[1].produce()
        await cluster.until(lambda: cluster.state.isr == (1,), within_s=LAG_MS / 1000 + 2)
        assert cluster.nodes[1].partition.log.high_watermark == 2
        assert await cluster.nodes[1].acknowledged() is OK

    play(scenario, count=2, config=LogConfig(min_insync_replicas=1))


def test_a_follower_with_flush_messages_acknowledges_only_flushed_records() -> None:
    async def scenario(cluster: Cluster) -> None:
        for node in cluster.nodes.values():
            node.start_task(node.world.flusher.run())
        for count in range(1, 11):
            assert await cluster.nodes[1].acknowledged() is OK
            assert [node.partition.log.recovery_point for node in cluster.nodes.values()] == [count] * 3

    play(scenario, config=LogConfig(min_insync_replicas=3, flush_messages=1))


def test_a_new_leader_acknowledges_the_records_that_it_followed_once_they_are_flushed() -> None:
    async def scenario(cluster: Cluster) -> None:
        one, two = cluster.nodes[1], cluster.nodes[2]
        one.start_task(one.world.flusher.run())
        two.world.flusher.flush = lambda log: asyncio.sleep(3_600)  # type: ignore[assignment,method-assign]
        offset = one.produce()
        await cluster.until(lambda: two.partition.log.flush_due_from is not None)
        cluster.change(leader=2, isr=(2,))
        assert two.partition.log.high_watermark == 0, "no replica in sync has it on disk"
        del two.world.flusher.flush
        two.start_task(two.world.flusher.run())
        await cluster.until(lambda: two.partition.log.high_watermark == offset)
        assert two.partition.log.recovery_point == offset

    play(scenario, count=2, config=LogConfig(min_insync_replicas=1, flush_messages=1))
