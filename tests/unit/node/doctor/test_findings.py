"""Facts with each kind of problem that the doctor finds, and facts without any."""

from collections.abc import Iterable

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import cluster_health
from ottla.node.client.cluster_health import Health, PartitionState
from ottla.node.client.log_dirs import BrokerLogDirs, LogDirView
from ottla.node.client.quorum_admin import QuorumMember, QuorumView
from ottla.node.doctor import (
    clock_findings,
    codec_findings,
    disk_findings,
    down_findings,
    endpoint_findings,
    limit_findings,
    log_findings,
    partition_findings,
    quorum_findings,
    readiness_findings,
    version_findings,
)
from ottla.node.doctor.clock_findings import ClockFacts
from ottla.node.doctor.disk_findings import DiskFacts, Expected
from ottla.node.doctor.endpoint_facts import AdvertisedFacts, EndpointFacts, ListenerFacts, Speaks
from ottla.node.doctor.finding import Finding, Severity
from ottla.node.doctor.limit_findings import LimitFacts
from ottla.node.doctor.log_findings import UncleanableFacts
from ottla.node.doctor.quorum_findings import QuorumFacts
from ottla.node.doctor.version_findings import NEEDED, ClientFacts, VersionFacts

GIB = 1024**3
NOW_MS = 1_700_000_000_000
HEALTHY = EndpointFacts("broker-1", 9092, ["10.0.0.1"], Speaks.KAFKA)
LOCAL = EndpointFacts("localhost", 9092, ["127.0.0.1", "::1"], Speaks.KAFKA)


def problems(found: Iterable[Finding]) -> list[str]:
    return [one.sentence for one in found if one.severity is Severity.PROBLEM]


def only(found: Iterable[Finding]) -> str:
    """Return the sentence of the only finding."""
    [sentence] = problems(found)
    assert sentence[0].isupper() or ":" in sentence, sentence
    assert sentence.endswith(".") and "\n" not in sentence
    return sentence


# ---- listeners and addresses ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speaks", "words"),
    [
        (Speaks.TLS, "requires TLS"),
        (Speaks.HTTP, "is a web server"),
        (Speaks.OTHER, "another program listens there"),
        (Speaks.CONTROLLER, "is the CONTROLLER listener of an Ottla node"),
        (Speaks.SILENT, "does not answer"),
        (Speaks.REFUSED, "refuses connections"),
        (Speaks.UNREACHABLE, "cannot be reached (no route)"),
        (Speaks.UNRESOLVED, "cannot be resolved"),
    ],
)
def test_the_problem_of_an_address_that_does_not_speak_kafka_says_what_answers(
    speaks: Speaks, words: str
) -> None:
    at = HEALTHY._replace(speaks=speaks, reason="no route")

    assert words in only(endpoint_findings.of_bootstrap([at]))
    assert words in only(endpoint_findings.of_advertised([AdvertisedFacts(1, at, False)]))


def test_addresses_that_answer_have_no_problem() -> None:
    nodes = [
        AdvertisedFacts(1, HEALTHY, False, True),
        AdvertisedFacts(2, HEALTHY._replace(port=9093), False, True),
    ]

    assert list(endpoint_findings.of_bootstrap([HEALTHY])) == []
    assert list(endpoint_findings.of_advertised(nodes)) == []


def test_a_loopback_address_that_is_advertised_to_other_machines_is_a_problem() -> None:
    remote = endpoint_findings.of_advertised([AdvertisedFacts(1, LOCAL, False, True)])
    from_here = endpoint_findings.of_advertised([AdvertisedFacts(1, LOCAL, True, True)])

    assert "Node 1 advertises localhost:9092, a loopback address" in only(remote)
    assert problems(from_here) == []


def test_a_cluster_on_a_laptop_may_advertise_loopback_addresses_but_a_mixed_one_is_noted() -> None:
    here = AdvertisedFacts(1, LOCAL, True, True)
    elsewhere = AdvertisedFacts(2, HEALTHY._replace(port=9093), True, True)

    assert list(endpoint_findings.of_advertised([here])) == []
    [noted] = endpoint_findings.of_advertised([here, elsewhere])
    assert "Node 1 advertises localhost:9092, a loopback address" in noted.sentence


def test_an_address_at_which_another_node_answers_is_a_problem() -> None:
    assert "another node answers there" in only(
        endpoint_findings.of_advertised([AdvertisedFacts(1, HEALTHY, False, False)])
    )


def test_two_nodes_must_not_advertise_the_same_address() -> None:
    nodes = [AdvertisedFacts(1, HEALTHY, False, True), AdvertisedFacts(2, HEALTHY, False, True)]

    assert "but node 1 advertises that address too" in only(endpoint_findings.of_advertised(nodes))


def listener(speaks: Speaks, *, runs: bool, protocol: str = "PLAINTEXT") -> ListenerFacts:
    return ListenerFacts("PLAINTEXT", protocol, HEALTHY._replace(speaks=speaks), runs)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (listener(Speaks.REFUSED, runs=True), "refuses connections"),
        (listener(Speaks.KAFKA, runs=False), "another process, which speaks Kafka, uses port 9092"),
        (listener(Speaks.HTTP, runs=False), "another process, which speaks HTTP, uses port 9092"),
        (
            listener(Speaks.REFUSED, runs=False)._replace(is_own_address=False),
            "not have the address broker-1",
        ),
    ],
)
def test_the_problem_of_a_listener_that_cannot_work_says_why(one: ListenerFacts, words: str) -> None:
    assert words in only(endpoint_findings.of_listeners([one]))


def test_listeners_that_answer_or_are_free_have_no_problem() -> None:
    well = [
        listener(Speaks.KAFKA, runs=True),
        listener(Speaks.REFUSED, runs=False),
        listener(Speaks.TLS, runs=True, protocol="SSL"),
    ]

    assert list(endpoint_findings.of_listeners(well)) == []


# ---- the quorum ----------------------------------------------------------------------------------


def member(node_id: int, *, ago_ms: int = 100, end: int = 500, directory: int = 1) -> QuorumMember:
    at_ms = -1 if ago_ms < 0 else NOW_MS - ago_ms
    return QuorumMember(node_id, True, bytes([directory] * 16), end, at_ms, at_ms)


def quorum(*voters: QuorumMember, leader: int = 0) -> QuorumFacts:
    return QuorumFacts(QuorumView(leader, 3, 500, voters, {}), None, NOW_MS, {"a:1": "X", "b:1": "X"})


def test_a_quorum_whose_voters_follow_has_no_problem() -> None:
    assert list(quorum_findings.of_quorum(quorum(member(0), member(1), member(2)))) == []


def test_a_silent_voter_is_reported_and_that_no_other_may_fail() -> None:
    found = problems(quorum_findings.of_quorum(quorum(member(0), member(1), member(2, ago_ms=60_000))))

    assert "Voter 2 last contacted the leader 0 60 s ago" in found[0]
    assert "Only 2 of 3 voters follow the leader: if one more fails, metadata cannot change." in found[1]


def test_a_minority_of_voters_is_a_problem() -> None:
    found = problems(
        quorum_findings.of_quorum(quorum(member(0), member(1, ago_ms=-1), member(2, ago_ms=60_000)))
    )

    assert "Voter 1 has never contacted the leader 0" in found[0]
    assert "Only 1 of 3 voters follow the leader, which is not a majority" in found[2]


def test_a_quorum_without_a_leader_is_a_problem() -> None:
    unknown = QuorumFacts(None, "no answer", NOW_MS, {})

    assert "does not answer (no answer)" in only(quorum_findings.of_quorum(unknown))
    assert "has no leader" in problems(quorum_findings.of_quorum(quorum(member(0), leader=-1)))[0]


def test_a_voter_that_is_far_behind_is_a_problem() -> None:
    assert "is 19500 metadata records behind" in only(
        quorum_findings.of_quorum(quorum(member(0, end=20_000), member(1), member(2, end=20_000)))
    )


def test_addresses_of_two_clusters_are_a_problem() -> None:
    split = quorum(member(0), member(1), member(2))._replace(cluster_ids={"a:1": "X", "b:1": "Y", "c:1": "X"})

    assert only(quorum_findings.of_quorum(split)) == (
        "These addresses belong to 2 different clusters: a:1, c:1 to X; b:1 to Y."
    )


def test_a_voter_with_two_disks_is_a_problem() -> None:
    voters = (member(0), member(1), member(1, directory=2))

    assert "Voter 1 is registered with 2 disks" in only(quorum_findings.of_quorum(quorum(*voters)))


def test_an_even_number_of_voters_is_a_note() -> None:
    [found] = quorum_findings.of_quorum(quorum(member(0), member(1), member(2), member(3)))

    assert found.severity is Severity.NOTE and "odd number" in found.sentence


# ---- partitions ----------------------------------------------------------------------------------


def partitions(**isr: list[int]) -> Health:
    """Return the health of partitions 0 of topics with these replicas in sync, of three on three brokers."""
    states = [
        PartitionState(TopicPartition(name, 0), one[0] if one else -1, [0, 1, 2], one, [])
        for name, one in isr.items()
    ]
    return cluster_health.assess(0, (), states, dict.fromkeys(isr, 2))


def test_partitions_with_all_replicas_in_sync_have_no_problem() -> None:
    assert list(partition_findings.of_partitions(partitions(a=[0, 1, 2]))) == []
    assert list(partition_findings.of_partitions(None)) == []


def test_partitions_without_a_leader_or_with_too_few_in_sync_are_reported() -> None:
    several = {f"t{number}": [1] for number in range(7)}

    assert "No leader: a-0. Start" in only(partition_findings.of_partitions(partitions(a=[])))
    assert "min.insync.replicas: t0-0, t1-0, t2-0, t3-0, t4-0 and 2 more. Producers with acks=all" in only(
        partition_findings.of_partitions(partitions(**several))
    )


def test_replicas_that_are_not_in_sync_are_a_note() -> None:
    [found] = partition_findings.of_partitions(partitions(a=[0, 1]))

    assert found.severity is Severity.NOTE and "Not all replicas in sync: a-0" in found.sentence


def test_all_effects_of_a_broker_that_is_down_are_in_one_sentence() -> None:
    states = [
        PartitionState(TopicPartition("alone", 0), -1, [2], [2], [2]),
        PartitionState(TopicPartition("lost", 0), -1, [2], [], [2]),  # it has an eligible leader replica
        PartitionState(TopicPartition("strict", 0), 1, [1, 2], [1], [2]),
        PartitionState(TopicPartition("thin", 0), 1, [0, 1, 2], [0, 1], [2]),
        PartitionState(TopicPartition("thin", 1), 1, [0, 1, 2], [0, 1], [2]),
    ]
    health = cluster_health.assess(0, (), states, {"strict": 2})
    voters = quorum(member(0), member(1), member(2, ago_ms=60_000))

    assert only(down_findings.of_down([2], voters, health)) == (
        "Broker 2 is down, starting or hanging (registered, but fenced): 2 partitions have no leader "
        "(alone-0, lost-0); 1 partition rejects producers with acks=all (strict-0); 2 partitions lack a "
        "replica in sync (thin-0, thin-1); 2 of 3 voters of the metadata quorum are left, and if one more "
        "fails, metadata cannot change. Start it, or check the network."
    )
    assert list(partition_findings.of_partitions(health, [2])) == []
    assert list(quorum_findings.of_quorum(voters, [2])) == []


def test_a_partition_is_explained_only_if_all_its_missing_brokers_are_down() -> None:
    health = partitions(a=[0])  # brokers 1 and 2 are missing

    [found] = down_findings.of_down([2], None, health)
    both = only(down_findings.of_down([1, 2], None, health))

    assert found.sentence.endswith("(registered, but fenced). Start it, or check the network.")
    assert "min.insync.replicas: a-0" in only(partition_findings.of_partitions(health, [2]))
    assert "Brokers 1, 2 are down" in both and "1 partition rejects producers with acks=all (a-0)" in both
    assert list(partition_findings.of_partitions(health, [1, 2])) == []
    assert list(down_findings.of_down([], None, health)) == []


def test_a_lost_majority_is_reported_even_if_brokers_are_down() -> None:
    silent = quorum(member(0), member(1, ago_ms=60_000), member(2, ago_ms=60_000))

    assert "which is not a majority" in only(quorum_findings.of_quorum(silent, [1, 2]))


def test_the_address_of_a_broker_that_is_down_is_no_separate_problem() -> None:
    gone, silent = LOCAL._replace(speaks=Speaks.REFUSED), HEALTHY._replace(speaks=Speaks.SILENT)

    assert problems(endpoint_findings.of_bootstrap([gone], [("broker-1", 9092)]))
    assert list(endpoint_findings.of_bootstrap([gone], [("127.0.0.1", 9092)])) == []
    assert list(endpoint_findings.of_bootstrap([silent], [("broker-1", 9092)])) == []


def test_replicas_that_share_a_rack_are_a_note() -> None:
    view = partitions(a=[0, 1, 2])._replace(sharing_racks=[TopicPartition("a", 0)])

    [found] = partition_findings.of_partitions(view)

    assert found.severity is Severity.NOTE and "Replicas share a rack" in found.sentence


# ---- disks ---------------------------------------------------------------------------------------

DISK = DiskFacts(
    "/data",
    owner="ottla",
    user="ottla",
    total_bytes=100 * GIB,
    usable_bytes=50 * GIB,
    free_inodes=10_000,
    sync_ms=1.5,
    cluster_id="X",
    node_id=1,
)
EXPECTED = Expected("X", 1, is_serving=True)


def test_a_good_disk_has_no_problem() -> None:
    assert list(disk_findings.of_disks([DISK._replace(locked_by="process 7")], EXPECTED)) == []
    assert list(disk_findings.of_disks([DiskFacts("/new", exists=False)], EXPECTED)) == []


@pytest.mark.parametrize(
    ("disk", "words"),
    [
        (DISK._replace(error="Input/output error"), "cannot be examined: Input/output error"),
        (DISK._replace(exists=False, is_writable=False), "does not exist, and ottla cannot create it"),
        (DISK._replace(is_directory=False), "is not a directory"),
        (DISK._replace(is_read_only=True), "mounted read-only"),
        (DISK._replace(is_writable=False, owner="root"), "belongs to root, and ottla cannot write to it"),
        (DISK._replace(usable_bytes=100 * 1024**2), "has 100 MiB of 102400 MiB free"),
        (DISK._replace(free_inodes=0), "no free inodes"),
        (DISK._replace(sync_ms=80.0), "takes 80 ms to sync"),
        (DISK._replace(meta_error="The file meta.properties cannot be read."), "cannot be read"),
        (DISK._replace(cluster_id="Y"), "belongs to cluster Y, but the configuration is for cluster X"),
        (DISK._replace(node_id=2), "belongs to node 2, but the configuration is for node 1"),
    ],
)
def test_the_problem_of_a_disk_says_why(disk: DiskFacts, words: str) -> None:
    assert words in only(disk_findings.of_disks([disk], EXPECTED))


def test_offline_and_full_directories_of_a_running_node_are_reported() -> None:
    well = LogDirView("/a", None, 100 * GIB, 50 * GIB, ())
    lost = LogDirView("/b", KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, ""), None, None, ())
    full = well._replace(path="/c", usable_bytes=GIB // 10)
    old = well._replace(total_bytes=None, usable_bytes=None)  # a server that does not report its space

    def of(*dirs: LogDirView) -> Iterable[Finding]:
        return disk_findings.of_brokers([BrokerLogDirs(2, None, dirs)])

    assert list(of(well, old)) == []
    assert "directory /b of node 2 is offline (KAFKA_STORAGE_ERROR)" in only(of(well, lost))
    assert "directory /c of node 2 has 102 MiB of 102400 MiB free" in only(of(full))


def test_a_small_disk_is_checked_by_its_free_share() -> None:
    small = DISK._replace(total_bytes=2 * GIB, usable_bytes=GIB // 4)

    assert list(disk_findings.of_disks([small], EXPECTED)) == []


def test_a_lock_held_by_a_process_that_does_not_serve_is_a_problem() -> None:
    held = DISK._replace(locked_by="process 7")

    assert "is locked by process 7" in only(
        disk_findings.of_disks([held], EXPECTED._replace(is_serving=False))
    )


def test_directories_of_two_clusters_are_a_problem() -> None:
    found = disk_findings.of_disks([DISK, DISK._replace(cluster_id="Y")], Expected(None, 1, True))

    assert "belong to 2 different clusters: X, Y" in only(found)


# ---- clocks, versions, limits --------------------------------------------------------------------


def test_clocks_that_differ_by_more_than_the_network_delay_are_a_problem() -> None:
    apart = [ClockFacts(0, -100, 5, 0), ClockFacts(1, 4_000, 5, 0)]
    unsure = [ClockFacts(0, 0, 900, 0), ClockFacts(1, 2_000, 900, 0)]

    assert "node 1 is 4.1 s ahead of the clock of node 0" in only(clock_findings.of_clocks(apart))
    assert list(clock_findings.of_clocks(unsure)) == []
    assert list(clock_findings.of_clocks([ClockFacts(0, 99_999, 1, 0)])) == [], (
        "the doctor's own may be wrong"
    )


def test_a_clock_that_was_set_is_a_problem() -> None:
    assert "was set 3600.0 s back" in only(clock_findings.of_clocks([ClockFacts(2, 0, 1, -3_600_000)]))
    assert "was set 2.0 s forward" in only(clock_findings.of_clocks([ClockFacts(2, 0, 1, 2_000)]))


OURS = dict.fromkeys(NEEDED, (4, 13))


def test_incompatible_versions_are_a_problem() -> None:
    old = VersionFacts("a:1", {**OURS, "Fetch": (0, 3)})
    new = VersionFacts("a:1", {**OURS, "Fetch": (14, 20)})
    none = VersionFacts("a:1", {name: one for name, one in OURS.items() if name != "Produce"})

    assert "upgrade the node" in only(version_findings.of_versions([old], OURS))
    assert "upgrade this client" in only(version_findings.of_versions([new], OURS))
    assert "does not support Produce" in only(version_findings.of_versions([none], OURS))
    assert list(version_findings.of_versions([VersionFacts("a:1", OURS)], OURS)) == []


def test_nodes_of_different_versions_are_a_note() -> None:
    nodes = [VersionFacts("a:1", OURS), VersionFacts("b:1", {**OURS, "Fetch": (4, 12)})]

    [found] = version_findings.of_versions(nodes, OURS)

    assert found.severity is Severity.NOTE and "upgrade" in found.sentence


def test_a_client_whose_request_was_rejected_is_reported() -> None:
    clients = [ClientFacts(1, "sarama", "Fetch 0"), ClientFacts(1, "librdkafka", None)]

    assert "A client (sarama) asked node 1 for Fetch 0" in only(version_findings.of_clients(clients))


def test_a_low_or_nearly_reached_limit_of_open_files_is_a_problem() -> None:
    assert "has 900 of at most 1000 files open" in only(
        limit_findings.of_limits([LimitFacts("Node 1", 1000, 900)])
    )
    assert "may open only 1024 files" in only(limit_findings.of_limits([LimitFacts("Node 1", 1024, None)]))
    assert list(limit_findings.of_limits([LimitFacts("Node 1", 1_048_576, 500)])) == []


def test_logs_that_cannot_be_cleaned_are_reported() -> None:
    logs = [(f"t-{number}", "a batch is broken.") for number in range(100)]
    one = log_findings.of_uncleanable([UncleanableFacts(2, logs[:1], 1), UncleanableFacts(1, (), 0)])
    many = log_findings.of_uncleanable([UncleanableFacts(2, logs, 200)])

    assert "Node 2 cannot clean a compacted log, which therefore grows: t-0 (a batch is broken); " in only(
        one
    )
    sentence = only(many)
    assert "clean compacted logs, which therefore grow: t-0 (a batch is broken); t-1" in sentence
    assert "t-4 (a batch is broken) and 195 more; " in sentence


def test_damaged_files_are_reported_with_their_position() -> None:
    files = [("/data/t-0/1.log at position 5, offset 7", "no other replica is in sync")]
    facts = [log_findings.DamagedFacts(2, files, 1), log_findings.DamagedFacts(1, (), 0)]

    sentence = only(log_findings.of_damaged(facts))

    assert "Node 2 has a damaged log file: /data/t-0/1.log at position 5, offset 7 (no other" in sentence
    assert "leaves the ISR if another replica is in it, and returns when it is repaired" in sentence


def test_a_missing_link_of_a_voter_is_reported_with_the_reason() -> None:
    unlinked = "voter 3 at host3:9093 (Node 3 has a different cluster.secret)"
    facts = [quorum_findings.UnlinkedFacts(1, {3: unlinked}), quorum_findings.UnlinkedFacts(2, {})]

    assert [one.sentence for one in quorum_findings.of_links(facts)] == [
        f"Node 1 is not connected to {unlinked}."
    ]
    assert list(quorum_findings.of_links(facts, [3])) == [], "that node is down, and reported as such"


def test_a_missing_codec_is_a_problem_if_a_setting_uses_it() -> None:
    used, unused = codec_findings.of_codecs(
        [
            codec_findings.MissingCodec("Node 1", "lz4", ["compression.type of orders"]),
            codec_findings.MissingCodec("Node 2", "snappy", ()),
        ]
    )

    assert used.severity is Severity.PROBLEM and "lz4, which compression.type of orders uses" in used.sentence
    assert unused.severity is Severity.NOTE and "Node 2 lacks the package for snappy" in unused.sentence
    assert "pip install lz4" in used.sentence and "pip install cramjam" in unused.sentence


def test_a_node_that_is_not_ready_is_reported_with_the_reason() -> None:
    (found,) = readiness_findings.of_readiness(1, "Waiting for voter 2 at host2:9093.")

    assert found.sentence == "Node 1 is running but not ready: Waiting for voter 2 at host2:9093."
    assert list(readiness_findings.of_readiness(1, None)) == []


def test_a_voter_whose_directory_is_a_copy_is_reported_with_the_remedy() -> None:
    copied = member(2)._replace(is_disk_copied=True)

    (found,) = problems(quorum_findings.of_quorum(quorum(member(0), member(1), copied)))

    assert "The data directory of voter 2 is a copy" in found
    assert "until all voters are running" in found and "`ottla quorum trust-copy`" in found


def test_a_voter_whose_disk_was_restored_to_an_earlier_state_is_reported() -> None:
    old = member(2)._replace(is_disk_old=True)

    found = problems(quorum_findings.of_quorum(quorum(member(0), member(1), old)))

    assert len(found) == 1 and "The disk of voter 2 was restored to an earlier state" in found[0]


def test_a_voter_whose_log_the_leader_does_not_know_yet_is_not_behind() -> None:
    voters = quorum(member(0, end=20_000), member(1, end=-1), member(2, end=20_000))

    assert list(quorum_findings.of_quorum(voters)) == []
