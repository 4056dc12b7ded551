"""The findings in pysyncobj 0.3.17, each as a schedule: the stock library loses data, and our voters do not.

Each schedule runs twice, with the library as it is shipped and with our voters, and returns what broke:
something for the library, nothing for ours. Findings are named as in metadata_raft/DESIGN.md.
"""

import gc
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.logstore.record_batch import computed_crc
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft import raft_node
from ottla.metadata_raft.quorum_state import QuorumState
from ottla.metadata_raft.raft_core import apply_batch
from ottla.metadata_raft.raft_entry import encode_entry, open_entry
from ottla.metadata_raft.raft_guard import Peer
from ottla.metadata_raft.raft_journal import RaftJournal
from ottla.metadata_raft.raft_member import RaftMember
from ottla.metadata_raft.raft_messages import (
    AppendReply,
    RequestVote,
    VoteGranted,
    decode_message,
    encode_message,
)
from ottla.metadata_raft.raft_snapshots import SnapshotStore
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.records import ConfigRecord, PartitionChangeRecord
from ottla.metadata_raft.voters import record_of_voters
from tests.simulation.raft import mutants
from tests.simulation.raft.fuzz import LIMITS
from tests.simulation.raft.stock import StockNode, StockWorld
from tests.simulation.raft.world import DIRECTORY, EMPTY, Node, World

Broken = list[Any]
SYSTEMS = ("stock", "ours")


def check_system(system: str, broken: Broken) -> None:
    """Check that the schedule broke something in the stock library, and nothing in our voters."""
    assert bool(broken) == (system == "stock"), broken


def isolate(world: StockWorld, name: str) -> None:
    for other in world.names:
        world.network.cut(name, other)


def rejoin(world: StockWorld, name: str) -> None:
    for other in world.names:
        if other != name:
            world.network.connect(name, other)


# ---- S1: the commit index follows a snapshot's chunk over entries that no other voter has -----------------


def stock_s1() -> Broken:
    world = StockWorld()
    world.elect("A")
    chance = random.Random(1)
    for _ in range(8):
        world.nodes["A"].put(chance.randbytes(30_000).hex())
    world.run(1)
    isolate(world, "A")
    acknowledged: list[int] = []
    for number in range(3):
        world.nodes["A"].put(
            f"lost{number}",
            callback=lambda _result, error, n=number: acknowledged.append(n) if error == 0 else None,
        )
    world.run(1, "A")
    world.run(5, "BC", lambda: any(name in "BC" for name in world.leaders))
    leader = next(name for name in world.leaders if name in "BC")
    for number in range(10):
        world.nodes[leader].put(number)
    world.run(2, "BC")
    for name in "BC":
        world.nodes[name].forceLogCompaction()
    world.run(2, "BC")
    rejoin(world, "A")
    world.network.held.add((leader, "A"))  # a snapshot does not arrive at once
    for _ in range(200):
        world.step()
        world.network.deliver(leader, "A", 1)
    return [number for number in acknowledged if f"lost{number}" not in world.nodes[leader].log]


def our_s1() -> Broken:
    world = World(3, limits=LIMITS, kept_entries=1)
    old = world.leader()
    for number in range(8):
        old.propose(f"base{number}", 400)
    world.run(1)
    world.network.isolate(old.node_id)
    for number in range(3):
        old.propose(f"lost{number}")
    leader = world.leader_among(world.others(old))
    for number in range(10):
        leader.propose(f"good{number}")
    world.run(2)
    for node in world.nodes.values():
        if node is not old:
            world.make_snapshot(node)
    world.run(2)
    world.network.rejoin(old.node_id)
    world.run(10)
    assert old.installed and world.settings(old) == world.settings(leader)
    return sorted(world.history.acknowledged - world.settings(leader))


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_s1_an_old_leader_that_rejoins_by_snapshot_commits_no_entries_of_its_own(system: str) -> None:
    check_system(system, stock_s1() if system == "stock" else our_s1())


# ---- S2: an acknowledgement of an earlier term -------------------------------------------------------------


def stock_s2() -> Broken:
    world = StockWorld("ABCDE")
    world.elect("A")
    for other in "BCE":
        world.network.cut("A", other)
        world.network.cut("D", other)
    acknowledged: list[int] = []
    world.nodes["A"].put("new", callback=lambda _result, error: acknowledged.append(error))
    late = {"type": "next_node_idx", "next_node_idx": 9, "reset": False, "success": True}
    world.nodes["A"]._SyncObj__onMessageReceived(world.nodes["B"].selfNode, late)
    world.run(0.3, "AD")
    holders = [name for name in "ABCDE" if world.nodes[name].log or name in "AD"]
    return [f"acknowledged, and only on {holders}"] if acknowledged == [0] else []


def our_s2(make_member: Callable[..., Any]) -> Broken:
    world = World(5, make_member=make_member)
    leader = world.leader()
    slow, near, *far = world.others(leader)
    for node in (slow, *far):
        for other in (leader, near):
            world.network.cut(leader.node_id, node.node_id)
            world.network.cut(node.node_id, other.node_id)
            world.network.cut(other.node_id, node.node_id)
    leader.propose("new")
    index = leader.member.journal.last.raft_index
    late = AppendReply(term=leader.leading_term - 1, previous_index=1, success=True, next_index=index + 1)
    world.step()
    leader.member.guard.receive(Peer(slow.node_id, slow.directory_id), encode_message(late))
    try:
        world.run(0.3)
    except AssertionError as lost:  # the others have elected a leader that does not have it
        return [str(lost)]
    return ["acknowledged, and only on two of five"] if "new" in world.history.acknowledged else []


@pytest.mark.parametrize("system", [*SYSTEMS, "mutant"])
def test_s2_an_acknowledgement_counts_only_in_its_own_term(system: str) -> None:
    if system == "stock":
        assert stock_s2()
    else:
        make_member = mutants.counts_old_acks if system == "mutant" else RaftMember
        assert bool(our_s2(make_member)) == (system == "mutant")


# ---- S3: entries that agree are cut off --------------------------------------------------------------------


def stock_s3() -> Broken:
    world = StockWorld(appendEntriesBatchSizeBytes=4000)
    world.elect("A")
    world.nodes["A"].put("base")
    world.run(1)
    world.network.cut("A", "C")
    world.network.cut("B", "C")
    world.network.held.add(("A", "B"))
    acknowledged: list[int] = []
    for number in range(6):
        world.nodes["A"].put(
            f"E{number}" + "x" * 1500,
            callback=lambda _result, error, n=number: acknowledged.append(n) if error == 0 else None,
        )
    world.run(0.25, "AB")
    world.network.cut("A", "B")
    world.network.held.clear()
    world.network.connect("A", "B")
    world.network.held.add(("B", "A"))
    world.run(0.5, "AB")
    world.network.deliver("B", "A", 1)
    world.step(0.11, "A")
    world.step(0.11, "AB")
    world.network.held.add(("A", "B"))
    world.network.deliver("B", "A", 1)
    world.step(0.11, "A")
    world.network.deliver("B", "A")
    world.step(0.001, "A")
    world.network.deliver("A", "B", 1)
    world.network.held.clear()
    world.kill("A")
    world.network.connect("B", "C")
    world.run(6)
    log = world.nodes[world.leaders[0]].log
    return [number for number in acknowledged if not any(str(one).startswith(f"E{number}") for one in log)]


def our_s3() -> Broken:
    world = World(3, limits=LIMITS)
    leader = world.leader()
    near, far = world.others(leader)
    network = world.network
    network.isolate(far.node_id)
    there, back = (leader.node_id, near.node_id), (near.node_id, leader.node_id)
    network.held.add(there)
    for number in range(6):
        leader.propose(f"e{number}", 400)
    world.run(0.25)
    network.cut(*there)
    network.held.clear()
    network.heal(*there)
    network.held.add(back)
    world.run(0.3)
    network.held.clear()
    cut: list[int] = []
    truncate = near.member.journal.truncate_from
    near.member.journal.truncate_from = lambda index: (cut.append(index), truncate(index))[1]  # type: ignore
    world.run(0.5)
    acknowledged = set(world.history.acknowledged)
    assert len(acknowledged) == 6
    world.crash(leader)
    network.rejoin(far.node_id)
    second = world.leader_among(world.others(leader))
    world.run(1)
    return [*cut, *sorted(acknowledged - world.settings(second))]


@pytest.mark.parametrize("system", SYSTEMS)
def test_s3_a_repeated_message_does_not_truncate_acknowledged_entries(system: str) -> None:
    check_system(system, stock_s3() if system == "stock" else our_s3())


# ---- S5, S6, S7: errors while an entry is applied ----------------------------------------------------------


def stock_s5() -> Broken:
    world = StockWorld()
    world.elect("A")

    def fail(_result: Any, _error: Any) -> None:
        raise RuntimeError("Event loop is closed")

    world.nodes["A"].put("once", callback=fail)
    for _ in range(50):
        try:
            world.step()
        except RuntimeError:
            continue
    return [name for name, node in world.nodes.items() if node.log.count("once") > 1]


def our_s5() -> Broken:
    world = World(3)
    leader = world.leader()
    handle_entries = leader.handle_entries

    def handle_and_fail(entries: Any) -> None:
        handle_entries(entries)
        raise RuntimeError("Event loop is closed")

    leader.handle_entries = handle_and_fail  # type: ignore[method-assign]
    leader.propose("once")
    with pytest.raises(RuntimeError):
        world.run(1)
    # The process ends; the next one applies the entry again, to an image that does not have it.
    world.crash(leader)
    leader.handle_entries = handle_entries  # type: ignore[method-assign]
    world.start(leader)
    world.run(5)
    return [] if all(world.settings(node) == {"once"} for node in world.nodes.values()) else ["twice"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_s5_a_listener_that_raises_does_not_apply_an_entry_twice(system: str) -> None:
    check_system(system, stock_s5() if system == "stock" else our_s5())


def stock_s6() -> Broken:
    world = StockWorld()
    world.elect("A")
    world.nodes["A"].bad()
    world.nodes["A"].put("after")
    for _ in range(50):
        try:
            world.step()
        except ValueError:
            continue
    return [name for name, node in world.nodes.items() if "after" not in node.log]


def our_s6() -> Broken:
    invalid = MetadataBatch(0, 1, 5, [PartitionChangeRecord(partition_id=1, topic_id=b"x" * 16)])
    setting = ConfigRecord(resource_type=32, resource_name="g", name="after", value="v")
    images = [EMPTY, EMPTY]
    for batch in (invalid, MetadataBatch(1, 1, 5, [setting])):
        images = [apply_batch(image, open_entry(encode_entry(batch, 1)))[0] for image in images]
    return [] if images[0] == images[1] and "after" in images[0].configs.group("g") else images


@pytest.mark.parametrize("system", SYSTEMS)
def test_s6_a_batch_that_contradicts_the_image_is_skipped_by_every_voter(system: str) -> None:
    check_system(system, stock_s6() if system == "stock" else our_s6())


def test_s7_an_entry_with_a_record_of_a_later_version_raises_and_is_not_applied() -> None:
    entry = bytearray(encode_entry(MetadataBatch(0, 1, 5, [record_of_voters(World(1).configured)]), 1))
    at = entry.index(b"\1\xb1\xea\1")  # the frame: version, api key 30001
    entry[at + 1 : at + 4] = b"\xff\xff\1"
    entry[17:21] = computed_crc(entry, 0, len(entry)).to_bytes(4, "big")

    with pytest.raises(KafkaError) as unknown:
        apply_batch(EMPTY, open_entry(bytes(entry)))

    assert unknown.value.code is ErrorCode.UNSUPPORTED_VERSION


# ---- S10, S11, K1, K2, S15: logs and snapshots -------------------------------------------------------------


@pytest.fixture
def files_left_open() -> Iterator[None]:
    """Collect the files that the stock library does not close, so that no later test is blamed for them.

    The log that pytest keeps of the test refers to them until its teardown.
    """
    yield
    gc.collect()


def stock_s10(tmp_path: Path) -> Broken:
    def make(network: Any, name: str, names: str, **settings: Any) -> StockNode:
        return StockNode(
            network, name, names, journalFile=str(tmp_path / name), logCompactionMinEntries=50, **settings
        )

    world = StockWorld(make=make)
    world.elect("A")
    for number in range(120):
        world.nodes["A"].put(number)
    world.run(3)
    for node in world.nodes.values():
        node._doDestroy()
    again = StockWorld(make=make)
    again.run(5)
    return sorted(set(range(120)) - set(again.nodes[again.leaders[0]].log))


def our_s10() -> Broken:
    world = World(3, kept_entries=1)
    leader = world.leader()
    for number in range(120):
        leader.propose(f"n{number}")
    world.run(1)
    for node in world.nodes.values():
        world.make_snapshot(node)
    world.run(1)
    for node in world.nodes.values():
        world.crash(node)
    for node in world.nodes.values():
        world.start(node)
    world.run(5)
    return sorted(world.history.acknowledged - world.settings(world.leader()))


@pytest.mark.slow
@pytest.mark.usefixtures("files_left_open")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("system", SYSTEMS)
def test_s10_a_restart_of_all_after_a_snapshot_finds_everything(system: str, tmp_path: Path) -> None:
    check_system(system, stock_s10(tmp_path) if system == "stock" else our_s10())


def stock_s11(tmp_path: Path) -> Broken:
    settings = {"useFork": False, "logCompactionMinEntries": 50}

    def make(network: Any, name: str, names: str, **_: Any) -> StockNode:
        return StockNode(
            network,
            name,
            names,
            journalFile=str(tmp_path / f"{name}.journal"),
            fullDumpFile=str(tmp_path / f"{name}.dump"),
            **settings,
        )

    world = StockWorld(make=make)
    world.elect("A")
    for number in range(120):
        world.nodes["A"].put(number)
    world.run(3)
    for node in world.nodes.values():
        node._doDestroy()
    with (tmp_path / "B.dump").open("r+b") as dump:
        dump.truncate(40)
    again = StockWorld(make=make)
    again.step()
    return sorted(set(range(120)) - set(again.nodes["B"].log))


def our_s11() -> Broken:
    world = World(1)
    node = world.leader()
    for number in range(10):
        node.propose(f"n{number}")
    world.run(1)
    world.make_snapshot(node)
    world.run(1)
    path = next(path for path in node.disk.files if path.suffix == ".checkpoint")
    del node.disk.files[path].content[40:]
    try:
        SnapshotStore(DIRECTORY, node.disk).load(EMPTY)
    except KafkaError as rejection:
        assert rejection.code is ErrorCode.KAFKA_STORAGE_ERROR and str(path) in rejection.detail
        return []
    return ["it started without its state"]


@pytest.mark.usefixtures("files_left_open")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("system", SYSTEMS)
def test_s11_a_damaged_snapshot_stops_the_start(system: str, tmp_path: Path) -> None:
    check_system(system, stock_s11(tmp_path) if system == "stock" else our_s11())


@pytest.mark.slow
def test_k1_k2_s15_a_node_that_dies_at_any_step_of_a_snapshot_keeps_what_is_newer() -> None:
    """The library rewrites its journal entry by entry, and drops it if the snapshot is one step ahead."""

    def prepared() -> tuple[World, Node]:
        world = World(1, kept_entries=1)
        node = world.leader()
        node.member.guard.lock = threading.Lock()  # type: ignore[attr-defined]  # no part of any snapshot
        for number in range(20):
            node.propose(f"n{number}", 50)
        world.run(0.2)
        return world, node

    def snapshot(world: World, node: Node) -> None:
        world.make_snapshot(node)
        for number in range(20, 30):
            node.propose(f"n{number}", 50)
        world.run(0.5)

    world, node = prepared()
    begun = node.disk.steps
    snapshot(world, node)
    for step in range(begun + 1, node.disk.steps + 1):
        world, node = prepared()
        node.disk.fail_at, node.disk.stays_broken, node.disk.torn_bytes = step, True, 30
        try:
            snapshot(world, node)
        except OSError:
            pass
        acknowledged = set(world.history.acknowledged)
        node.disk.repair()
        world.crash(node)
        assert world.start(node)
        world.run(1)

        assert acknowledged <= world.settings(node), f"step {step}"


# ---- S12, S13: a leader that is cut off --------------------------------------------------------------------


def stock_s12() -> Broken:
    world = StockWorld()
    world.elect("A")
    isolate(world, "A")
    answers: list[Any] = []
    world.nodes["A"].put("x", callback=lambda _result, error: answers.append(error))
    world.run(1)
    return (
        ["it still leads, and no caller was answered"] if world.nodes["A"]._isLeader() and not answers else []
    )


def our_s12() -> Broken:
    world = World(3)
    leader = world.leader()
    world.network.isolate(leader.node_id)
    leader.propose("x")
    world.run(1)
    assert not world.history.pending, "the result of a batch was not reported"
    return ["it still leads"] if leader.leading_term or leader.member.engine.is_leading else []


@pytest.mark.parametrize("system", SYSTEMS)
def test_s12_s13_an_isolated_leader_steps_down_within_a_second_and_says_so(system: str) -> None:
    check_system(system, stock_s12() if system == "stock" else our_s12())


# ---- S14: more commands at once than a pipe holds ----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_s14_accepted_commands_do_not_raise_however_many_there_are(system: str) -> None:
    broken: Broken = []
    if system == "stock":
        stock = StockWorld(appendEntriesUseBatch=False, commandsQueueSize=0)
        stock.elect("A")
        try:
            for _ in range(70_000):
                stock.nodes["A"]._applyCommand(b"\1", None)
        except BlockingIOError:
            broken = ["it raised, and the command is queued"]
    else:
        world = World(1)
        leader = world.leader()
        for number in range(5_000):
            assert leader.propose(f"n{number}") is not None
        world.run(0.1)
        broken = [] if len(world.history.acknowledged) == 5_000 else ["lost"]
    check_system(system, broken)


# ---- S19: the time to replace a diverging log --------------------------------------------------------------


def stock_s19() -> float:
    world = StockWorld()
    world.elect("A")
    isolate(world, "A")
    for number in range(100):
        world.nodes["A"].put(f"u{number}")
    world.run(1, "A")
    world.run(5, "BC", lambda: any(name in "BC" for name in world.leaders))
    leader = next(name for name in world.leaders if name in "BC")
    for number in range(100):
        world.nodes[leader].put(f"g{number}")
    world.run(2, "BC")
    # The next leader begins after its own last entry, where the old one has other entries.
    world.elect("C" if leader == "B" else "B", "BC")
    rejoin(world, "A")
    start = world.now
    world.run(60, until=lambda: "g99" in world.nodes["A"].log)
    return world.now - start


def our_s19() -> float:
    world = World(3)
    old = world.leader()
    world.network.isolate(old.node_id)
    for number in range(1000):
        old.propose(f"u{number}")
    leader = world.leader_among(world.others(old))
    for number in range(1000):
        leader.propose(f"g{number}")
    world.run(1)
    leader.member.engine.hand_over()
    world.run(1)
    assert not leader.leading_term
    leader = world.leader_among(world.others(old))
    world.network.rejoin(old.node_id)
    start = world.now
    assert world.run(30, until=lambda: world.settings(old) == world.settings(leader))
    return world.now - start


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_s19_a_thousand_diverging_entries_are_replaced_within_a_second(system: str) -> None:
    if system == "stock":
        assert stock_s19() > 2  # for a tenth of them
    else:
        assert our_s19() < 1


# ---- M1, M2: elections that must not happen ----------------------------------------------------------------


def m1(make_member: Callable[..., Any]) -> Broken:
    """Break one link for a minute, then disconnect one voter for another minute."""
    world = World(3, seed=3, make_member=make_member)
    leader = world.leader()
    other = world.others(leader)[0]
    term = leader.leading_term
    world.network.cut(leader.node_id, other.node_id)
    world.network.cut(other.node_id, leader.node_id)
    world.run(60)
    world.network.isolate(other.node_id)
    world.run(60)
    world.network.rejoin(other.node_id)
    world.run(5)
    return [] if world.leaders == [leader] and leader.leading_term == term else [world.leaders]


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_m1_m2_a_voter_that_was_disconnected_does_not_depose_the_leader(system: str) -> None:
    make_member = mutants.elects_without_pre_vote if system == "stock" else RaftMember
    check_system(system, m1(make_member))


# ---- M3: a voter that lost its disk ------------------------------------------------------------------------


def m3(make_member: Callable[..., Any]) -> Broken:
    """Let two of three have the entries; one of them loses its disk, the other is down."""
    world = World(3, make_member=make_member)
    leader = world.leader()
    second, third = world.others(leader)
    world.network.isolate(third.node_id)
    for number in range(5):
        leader.propose(f"n{number}")
    world.run(1)
    assert len(world.history.acknowledged) == 5
    world.crash(second)
    second.wipe()
    world.network.isolate(leader.node_id)
    world.start(second)
    for one, other in ((second, third), (third, second)):
        world.network.heal(one.node_id, other.node_id)
    try:
        world.run(10)
    except AssertionError as lost:  # what was committed is replaced
        return [str(lost)]
    return [node.node_id for node in (second, third) if node.leading_term]


@pytest.mark.parametrize("system", SYSTEMS)
def test_m3_a_voter_that_lost_its_disk_elects_no_leader(system: str) -> None:
    make_member = mutants.counts_any_disk if system == "stock" else RaftMember
    check_system(system, m3(make_member))


def test_a_voter_that_loses_its_vote_votes_twice() -> None:
    """So term and vote must be on disk before a vote is sent."""

    def votes(*, forgets: bool) -> int:
        world = World(3)
        world.leader()
        voter = world.nodes[1]
        last = voter.member.journal.last
        request = RequestVote(term=90, last_index=last.raft_index + 5, last_term=last.term)
        sent: list[int] = []
        voter.send = lambda node_id, frame: sent.append(node_id) if frame[0] == 4 else None  # type: ignore
        world.network.isolate(1)
        for candidate in (2, 3):
            voter.member.election.handle_request_vote(candidate, request)
            voter.member.cycle()
            if forgets:
                voter.journal._state = QuorumState(90, -1)
                voter.journal._is_state_dirty = True
                voter.journal.sync()
            world.crash(voter)
            world.start(voter)
        return len(sent)

    assert (votes(forgets=False), votes(forgets=True)) == (1, 2)


@pytest.mark.parametrize("mutant", [None, mutants.acks_before_it_syncs])
def test_votes_and_acknowledgements_are_sent_after_what_they_promise_is_synced(mutant: Any) -> None:
    """Everything that a message promises must be on disk when the message is sent."""
    world = World(3, make_member=mutant or RaftMember)
    early: list[str] = []

    def watch(node: Node) -> None:
        send = node.send

        def send_and_check(node_id: int, frame: bytes) -> None:
            message = decode_message(frame)
            if isinstance(message, AppendReply | VoteGranted) and node.member.journal.is_dirty:
                early.append(type(message).__name__)
            send(node_id, frame)

        node.send = send_and_check  # type: ignore[method-assign]

    for node in world.nodes.values():
        watch(node)
    for _ in range(3):
        leader = world.leader()
        for number in range(5):
            leader.propose(f"n{number}")
        world.run(0.5)
        leader.member.engine.hand_over()
        world.run(1)

    assert {"AppendReply", "VoteGranted"} <= set(early) if mutant else not early


def test_any_bytes_as_a_batch_have_the_same_result_on_every_voter() -> None:
    """Applying an entry may raise only for an unknown version."""
    chance = random.Random(5)
    images = [EMPTY, EMPTY]
    for number in range(400):
        record = ConfigRecord(resource_type=32, resource_name="g", name=f"n{number}", value="v")
        entry = bytearray(encode_entry(MetadataBatch(images[0].version + 1, 1, 5, [record]), 1))
        for _ in range(chance.randrange(3)):
            entry[chance.randrange(61, len(entry))] ^= 1 << chance.randrange(8)
        entry[17:21] = computed_crc(entry, 0, len(entry)).to_bytes(4, "big")
        try:
            batch = open_entry(bytes(entry))
        except KafkaError as rejection:
            assert rejection.code is ErrorCode.UNSUPPORTED_VERSION
            continue
        assert batch.last_offset == images[0].version + 1
        images = [apply_batch(image, batch)[0] for image in images]
        assert images[0] == images[1]


# ---- spin: a leader whose snapshot is being written --------------------------------------------------------


def test_a_leader_sends_little_while_its_snapshot_is_being_written() -> None:
    """The stock library sent 38,692 messages in one tick to a voter that needed the unfinished snapshot."""
    world = World(3, kept_entries=1, limits=LIMITS)
    leader = world.leader()
    behind = world.others(leader)[0]
    world.network.isolate(behind.node_id)
    for round_number in range(2):
        for number in range(50):
            leader.propose(f"n{round_number}.{number}")
        world.run(1)
        world.work_seconds = 0.0 if round_number == 0 else 1e9  # the second one is never finished
        world.make_snapshot(leader)
        world.run(1)
    world.work_seconds = 0.0
    world.network.rejoin(behind.node_id)
    sent = world.network._count

    world.run(10, until=lambda: behind.image.version == leader.image.version)

    # Entries in the first snapshot are served from it, later ones from the log.
    assert behind.image.version == leader.image.version and behind.installed == 1
    assert world.network._count - sent < 300


# ---- the private names of the library that ours shadow -----------------------------------------------------


def test_the_library_is_the_one_that_was_audited() -> None:
    import hashlib

    import pysyncobj.syncobj as library
    from pysyncobj.version import VERSION

    source = Path(library.__file__).read_bytes()

    assert VERSION == raft_node.AUDITED_VERSION
    assert hashlib.sha256(source).hexdigest() == (
        "e8bdf06797085d734df86e24ab4802fe87893dff77268565ec036f7ad4a1cfe4"
    )
    for name in raft_node.SEAMS:
        assert name.removeprefix("_SyncObj").encode() in source, name


def test_only_one_file_knows_the_names_of_the_library() -> None:
    root = Path(raft_node.__file__).resolve().parents[1]
    for package in ("metadata_raft", "node", "logstore", "groupcoord"):
        for path in (root / package).rglob("*.py"):
            assert path.name == "raft_node.py" or "_SyncObj__" not in path.read_text(), path


def test_no_code_of_ours_is_reached_by_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    import pysyncobj.pickle as library_pickle

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("something was unpickled")

    for name in ("loads", "load", "dumps", "dump"):
        monkeypatch.setattr(library_pickle, name, fail)
    world = World(3, kept_entries=1, limits=LIMITS)
    leader = world.leader()
    behind = world.others(leader)[0]
    world.network.isolate(behind.node_id)
    for number in range(30):
        leader.propose(f"n{number}")
    world.run(1)
    world.make_snapshot(leader)
    world.run(1)
    world.network.rejoin(behind.node_id)
    world.run(5)

    assert behind.installed and world.has_settled()


def test_a_journal_loads_what_another_journal_wrote() -> None:
    world = World(3)
    leader = world.leader()
    leader.propose("x")
    world.run(1)

    journal = RaftJournal(DIRECTORY, leader.disk)
    journal.load(SnapshotStore(DIRECTORY, leader.disk).start)

    assert journal.last == leader.member.journal.last


def test_repeated_answers_do_not_multiply_the_chunks_of_a_snapshot() -> None:
    """Found by a storm: each answer requested a chunk, and each chunk caused an answer."""
    world = World(3, kept_entries=1, limits=LIMITS)
    leader = world.leader()
    behind = world.others(leader)[0]
    world.network.isolate(behind.node_id)
    for number in range(100):
        leader.propose(f"n{number}", 100)
    world.run(1)
    world.make_snapshot(leader)
    world.run(1)
    world.network.strays = 0.5
    world.network.rejoin(behind.node_id)
    sent = world.network._count

    assert world.run(60, until=lambda: behind.installed)

    assert world.network._count - sent < 3_000
