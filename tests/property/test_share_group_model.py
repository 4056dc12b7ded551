"""Share groups against a simple model: random members, share coordinators that fail, and topics that change.

The model is a dict of each member's subscription and last assignment. No member gets a partition whose state
no share coordinator has initialized, or of a topic that it does not subscribe to. When nothing disturbs them,
every partition with a subscriber has a member, and every member has a partition. The log, replayed whole or
only with the last record of each key, gives the same groups.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Refuse
from ottla.groupcoord.record_codec import GroupRecord, encode_key
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.share.share_results import ShareGroupHeartbeatResult
from ottla.groupcoord.share_state.share_state_words import SharePartitionKey
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.share.share_world import ShareWorld
from tests.unit.groupcoord.topic_ids import topic_id

MEMBERS = ("m0", "m1", "m2", "m3", "m4")
TOPICS = ("a", "b", "c")
MEMBER = st.sampled_from(MEMBERS)
READS = st.sets(st.sampled_from(TOPICS), min_size=1).map(sorted)
GROUP = "g"


class ShareGroups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = ShareWorld(CoordinatorConfig(largest_inline_share_target=8), {"a": 3, "b": 1})
        self.reads: dict[str, list[str]] = {}
        self.epochs: dict[str, int] = {}
        self.assigned: dict[str, dict[bytes, list[int]]] = {}

    # ---- members ------------------------------------------------------------------------------------

    @rule(member=MEMBER, reads=READS)
    def join(self, member: str, reads: list[str]) -> None:
        self._receive(member, self.world.heartbeat(member, 0, reads), reads)

    @rule(member=MEMBER)
    def heartbeat(self, member: str) -> None:
        if member in self.epochs:
            self._receive(member, self.world.heartbeat(member, self.epochs[member]), self.reads[member])

    @rule(member=MEMBER, reads=READS)
    def read_other_topics(self, member: str, reads: list[str]) -> None:
        if member in self.epochs:
            self._receive(member, self.world.heartbeat(member, self.epochs[member], reads), reads)

    @rule(member=MEMBER)
    def leave(self, member: str) -> None:
        answer = self.world.heartbeat(member, -1)
        assert isinstance(answer, Refuse) == (member not in self.epochs), answer
        self._forget(member)

    def _receive(self, member: str, answer: ShareGroupHeartbeatResult | Refuse, reads: list[str]) -> None:
        assert isinstance(answer, ShareGroupHeartbeatResult), answer
        self.reads[member], self.epochs[member] = reads, answer.member_epoch
        if answer.assignment is not None:
            self.assigned[member] = {one: list(numbers) for one, numbers in answer.assignment}
            wanted = {topic_id(name) for name in reads}
            assert self.assigned[member].keys() <= wanted, (reads, self.assigned[member])
            for one, numbers in self.assigned[member].items():
                initialized = {key.partition for key in self.world.persister.states if key.topic_id == one}
                assert set(numbers) <= initialized, (member, numbers, initialized)

    def _forget(self, member: str) -> None:
        for known in (self.reads, self.epochs, self.assigned):
            known.pop(member, None)

    # ---- administrators -----------------------------------------------------------------------------

    @rule(name=st.sampled_from(TOPICS), offset=st.integers(0, 9))
    def alter(self, name: str, offset: int) -> None:
        token = self.world.alter({name: {0: offset}})
        answer = self.world.answer(token)
        assert isinstance(answer, Refuse) == bool(self.epochs), answer
        key = SharePartitionKey(GROUP, topic_id(name), 0)
        if not self.epochs and not self.world.holds_jobs and name in self.world.topics:
            fails = (name, 0) in self.world.persister.fails
            assert fails or self.world.persister.states[key].start_offset == offset

    @rule(name=st.sampled_from(TOPICS))
    def delete_offsets(self, name: str) -> None:
        self.world.delete_offsets(name)

    @rule()
    def delete_group(self) -> None:
        token = self.world.delete_groups(GROUP)
        if not self.world.holds_jobs and not self.epochs and not self.world.persister.fails:
            assert self.world.deleted_groups(token)[GROUP] in ("NONE", "GROUP_ID_NOT_FOUND")
            assert not self.world.persister.states

    # ---- the world ----------------------------------------------------------------------------------

    @rule(counts=st.fixed_dictionaries({name: st.integers(0, 4) for name in TOPICS}))
    def change_topics(self, counts: dict[str, int]) -> None:
        """Create topics, and add partitions to them."""
        before = self.world.topics
        known = {name: max(count, before.get(name, 0)) for name, count in counts.items()}
        self.world.set_topics({name: count for name, count in known.items() if count})

    @rule(name=st.sampled_from(TOPICS), partition=st.integers(0, 3))
    def fail(self, name: str, partition: int) -> None:
        self.world.persister.fails[name, partition] = ErrorCode.COORDINATOR_NOT_AVAILABLE

    @rule()
    def repair(self) -> None:
        self.world.persister.fails.clear()

    @rule()
    def hold(self) -> None:
        self.world.holds_jobs = self.world.holds_tasks = True

    @rule()
    def release(self) -> None:
        self.world.holds_jobs = self.world.holds_tasks = False
        self.world.release_jobs()

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @rule(milliseconds=st.sampled_from((1, 1_000, 31_000)))
    def wait(self, milliseconds: int) -> None:
        self.world.groups.advance(milliseconds)
        group = self.world.groups.coordinator.shard.share_group(GROUP)
        for member in [one for one in self.epochs if group is None or one not in group.members]:
            self._forget(member)

    @rule()
    def settle(self) -> None:
        """Let the group settle without failures; assert that every member has a partition."""
        self.repair()
        self.release()
        for _ in range(6):
            self.world.groups.advance(1_000)
            self.wait(1)
            for member in list(self.epochs):
                self.heartbeat(member)
        wanted = {name for reads in self.reads.values() for name in reads if name in self.world.topics}
        places = {(topic_id(name), one) for name in wanted for one in range(self.world.topics[name])}
        assigned = {
            (topic, one)
            for topics in self.assigned.values()
            for topic, numbers in topics.items()
            for one in numbers
        }
        assert assigned == places
        for member, reads in self.reads.items():
            assert bool(self.assigned[member]) == any(self.world.topics.get(name) for name in reads), member

    # ---- the log ------------------------------------------------------------------------------------

    @invariant()
    def the_log_gives_the_same_group(self) -> None:
        live = self.world.groups.coordinator.shard.share_group(GROUP)
        newest: dict[bytes, GroupRecord] = {}
        for record in self.world.groups.log:
            newest.pop(encode_key(record), None)  # so that it moves to the end, as in a compacted log
            newest[encode_key(record)] = record
        for records in (self.world.groups.log, newest.values()):
            shard = GroupShard(self.world.groups.config, lambda: "u")
            for record in records:
                shard.replay(record)
            loaded = shard.share_group(GROUP)
            assert (loaded is None) == (live is None)
            if loaded is not None and live is not None:
                assert loaded.members == live.members
                assert loaded.targets == live.targets
                assert loaded.states == live.states
                assert (loaded.group_epoch, loaded.assignment_epoch) == (
                    live.group_epoch,
                    live.assignment_epoch,
                )


TestShareGroups = ShareGroups.TestCase
TestShareGroups.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
