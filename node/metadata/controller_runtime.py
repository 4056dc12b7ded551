"""Runs the controller while this node leads: it decides commands on an image ahead of the committed one.

The records of a decision are appended to the quorum. The reply is sent when they are committed, and with them
all records that the decision was based on. When the leader changes, the batches that are not committed may or
may not stay in the log. Their commands fail with NOT_CONTROLLER, and the senders ask the next leader with the
same request ids.
"""

import logging
from asyncio import Future, get_running_loop, shield, sleep
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.latency import LatencyHistogram
from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.metadata_raft.acl_set import ClientIdentity
from ottla.metadata_raft.commands import (
    AddRaftVoter,
    Command,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    RemoveRaftVoter,
    Reply,
    RequestId,
)
from ottla.metadata_raft.controller import Controller
from ottla.metadata_raft.controller_config import ControllerConfig
from ottla.metadata_raft.decision import Decision
from ottla.metadata_raft.delta import MetadataChanges, replay_steps
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.mutation_charge import MutationCharge, TakeMutations
from ottla.metadata_raft.quorum import Quorum, ReplicaStatus
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.records import MetadataRecord, NoOpRecord
from ottla.metadata_raft.voters import Voter
from ottla.node.clock import Clock
from ottla.node.work.turns import give_way, take_turns

# Batches that are not committed yet; beyond them commands fail with an error that clients retry.
MAX_PENDING: Final = 10_000
# A voter that has sent the leader nothing for this time does not count towards a majority.
SILENCE_MS: Final = 3_000
# The time for a new voter to catch up before its command fails and is sent again; less than peers wait.
CATCH_UP_SECONDS: Final = 1.5
# The time that a new leader gives voters to answer before they count as silent, and how often it checks.
HEARING_SECONDS: Final = 1.5
HEARING_POLL_SECONDS: Final = 0.05
# A topic with more partitions is replayed in several turns of the loop: to decide on one partition, and to
# replay it, takes 1 to 3 us each.
LARGE_TOPIC: Final = 1_000
ATTEMPTS_IN_TURNS: Final = 3

log = logging.getLogger(__name__)


class Decided(NamedTuple):
    """The reply to a command, and the offset that an image must have reached to include its changes."""

    reply: Reply
    offset: int


class _Pending(NamedTuple):
    """An appended batch that is not committed yet."""

    batch: MetadataBatch
    committed: "Future[None]"


class ControllerRuntime:
    """The controller of this node, with its uncommitted batches. Used on the node's event loop only."""

    def __init__(
        self,
        *,
        quorum: Quorum,
        image: MetadataImage,
        config: ControllerConfig,
        clock: Clock,
        take_mutations: TakeMutations | None = None,
    ) -> None:
        """`take_mutations` counts new and deleted partitions for clients' quotas; None counts nothing."""
        self._quorum = quorum
        self._controller = Controller(image, config)
        self._committed = image
        self._clock = clock
        self._take_mutations = take_mutations
        self._pending: deque[_Pending] = deque()
        self.commit_times = LatencyHistogram()  # from each decision to its commit

    def reconfigure(self, config: ControllerConfig) -> None:
        """Use other settings from the next decision on."""
        self._controller.config = config

    # ---- deciding ------------------------------------------------------------------------------------------

    async def decide(
        self, command: Command, request: RequestId | None = None, client: ClientIdentity | None = None
    ) -> Decided:
        """Decide a command and wait until it is committed.

        `client` is the client that sent the command; None if a node of the cluster did. NOT_CONTROLLER unless
        this node leads; other KafkaErrors if the command is rejected.
        """
        await self._prepare_quorum(command, client)
        charge = self._charge_of(command)
        if _is_large(command):
            decided, committed = await self._begin_in_turns(command, request, client, charge)
        else:
            decided, committed = self.begin(command, request, client, charge=charge)
        if committed is not None:
            await shield(committed)  # other calls may wait for it, too: a cancelled one must not fail them
        return decided

    async def _prepare_quorum(self, command: Command, client: ClientIdentity | None) -> None:
        """Prepare the quorum for a change of its voters: replicate the log to a new voter before it is added.

        A leader does not remove itself: it hands over leadership and fails with NOT_CONTROLLER, so that the
        next leader removes it.
        """
        if not self._quorum.is_leader:
            return
        if isinstance(command, AddRaftVoter | RemoveRaftVoter):
            self._controller.check_client(command, client)
        voters = {voter.voter_id for voter in self._committed.voters}
        match command:
            case AddRaftVoter() if command.listeners and command.voter_id not in voters:
                where = command.listeners[0]
                voter = Voter(command.voter_id, command.voter_directory_id, where.host, where.port)
                await self._quorum.catch_up(voter, CATCH_UP_SECONDS)
            case RemoveRaftVoter() if command.voter_id == self._quorum.leader_id and len(voters) > 1:
                self._quorum.hand_over()
                raise KafkaError(
                    ErrorCode.NOT_CONTROLLER,
                    "This node gives up leadership of the metadata quorum, so that it can be removed.",
                )
            case RemoveRaftVoter():
                await self._check_enough_stay(command.voter_id)
            case _:
                pass

    async def _check_enough_stay(self, leaving_id: int) -> None:
        """Raise INVALID_REQUEST if the voters that would remain have no majority that answers.

        A new leader may not have received an answer from the others yet, so it waits for them a moment.
        """
        loop = get_running_loop()
        deadline = loop.time() + HEARING_SECONDS
        while silent := self._silent_majority(leaving_id):
            if loop.time() > deadline:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Voter {leaving_id} cannot be removed: without it there would be "
                    f"no majority, because these voters do not answer: {silent}.",
                )
            await sleep(HEARING_POLL_SECONDS)

    def _silent_majority(self, leaving_id: int) -> list[int]:
        """Return the silent voters if the remaining voters have no majority without them; else none."""
        now_ms = self._clock.now_ms()
        staying = [one for one in self._quorum.status().voters if one.node_id != leaving_id]
        silent = [one.node_id for one in staying if now_ms - one.last_fetch_ms > SILENCE_MS]
        return silent if len(staying) > 1 and 2 * len(silent) >= len(staying) else []

    def _charge_of(self, command: Command) -> MutationCharge | None:
        """Return the charge for a client's command that creates or deletes partitions; None for others."""
        match command:
            case CreateTopics() | DeleteTopics() | CreatePartitions() if command.payer.principal:
                take = self._take_mutations
                return None if take is None else MutationCharge(command.payer, take)
            case _:
                return None

    def begin(
        self,
        command: Command,
        request: RequestId | None = None,
        client: ClientIdentity | None = None,
        *,
        charge: MutationCharge | None = None,
    ) -> "tuple[Decided, Future[None] | None]":
        """Decide a command and append its records, without waiting for their commit.

        Returns the decision, and the future of the commit that its reply must wait for, or None. Errors are
        those of `decide`; THROTTLING_QUOTA_EXCEEDED if too many decisions are not committed yet.
        """
        if not self._quorum.is_leader:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node does not lead the metadata quorum.")
        decision = self._controller.decide(command, self._now_ms(), request, client, charge=charge)
        if decision.records:
            self._append(self._batch_of(decision.records))
        return self._decided(decision)

    async def _begin_in_turns(
        self,
        command: Command,
        request: RequestId | None,
        client: ClientIdentity | None,
        charge: MutationCharge | None,
    ) -> "tuple[Decided, Future[None] | None]":
        """Do what `begin` does, but compute the next image in several turns of the loop.

        Requests that are served meanwhile see the metadata of before. If another command is decided in
        between, this one is decided again on the result; after some attempts in one turn, so that it ends.
        """
        for _ in range(ATTEMPTS_IN_TURNS):
            if not self._quorum.is_leader:
                break
            before = self._controller.image
            decision = self._controller.decide(command, self._now_ms(), request, client, charge=charge)
            if not decision.records:
                return self._decided(decision)
            await give_way()
            if self._controller.image is not before or not self._quorum.is_leader:
                continue
            batch = self._batch_of(decision.records)
            replayed = await take_turns(replay_steps(before, batch))
            is_same_leader = self._quorum.is_leader and self._quorum.epoch == batch.epoch
            if self._controller.image is before and is_same_leader:
                self._append(batch, replayed)
                return self._decided(decision)
        return self.begin(command, request, client, charge=charge)

    def _decided(self, decision: Decision) -> "tuple[Decided, Future[None] | None]":
        # A reply without records may still show changes of batches that are not committed yet.
        if not self._pending:
            return Decided(decision.reply, self._committed.version), None
        last = self._pending[-1]
        return Decided(decision.reply, last.batch.last_offset), last.committed

    def observers(self, members: Collection[int]) -> list[ReplicaStatus]:
        """Return the metadata progress of brokers outside the quorum, as their heartbeats reported it."""
        late_ms = self._clock.now_ms() - self._now_ms()  # from the monotonic clock to the wall clock
        found = []
        for broker_id, (offset, heard_at_ms) in self._controller.heard_of().items():
            broker = self._committed.brokers.get(broker_id)
            if broker_id in members or broker is None or broker.fenced:
                continue
            heard_ms = heard_at_ms + late_ms
            caught_up_ms = heard_ms if offset >= self._committed.version else -1
            directory_id = broker.log_dirs[0] if broker.log_dirs else ZERO_UUID
            found.append(ReplicaStatus(broker_id, directory_id, offset + 1, heard_ms, caught_up_ms))
        return found

    def state(self) -> Mapping[str, object]:
        """Return the controller's state that no log has; `now_ms` is the present time by its clock."""
        return {
            "now_ms": self._now_ms(),
            "broker_sessions": self._controller.sessions,
            "uncommitted_decisions": len(self._pending),
        }

    def tick(self) -> None:
        """Do the work that is due by time: fence silent brokers, and hold elections."""
        while len(self._pending) < MAX_PENDING and (due := self._controller.tick(self._now_ms())) is not None:
            self._append(self._batch_of(due.records))
        if self._quorum.status().wants_entry and not self._pending:
            self._append(self._batch_of([NoOpRecord()]))
        self._remove_lost_voter()

    def idle_s(self) -> float:
        """Return the seconds until `tick` has work; 0 if something is due that it could not do yet."""
        status = self._quorum.status()
        if status.returned or status.wants_entry:
            return 0.0
        return max(0, self._controller.next_tick_ms() - self._now_ms()) / 1000

    def _remove_lost_voter(self) -> None:
        """Remove a voter whose node came back with another disk; the node can then join again.

        While the old disk still answers, two processes run with the same node id, and nothing is removed.
        """
        status, now_ms = self._quorum.status(), self._clock.now_ms()
        returned = {node_id for node_id, _ in status.returned}
        for voter in status.voters:
            is_named = any(one[:2] == voter[:2] for one in self._committed.voters)
            is_gone = is_named and now_ms - voter.last_fetch_ms > SILENCE_MS
            if voter.node_id in returned and is_gone and not self._silent_majority(voter.node_id):
                log.warning(
                    "Voter %d came back with another disk: its old directory is removed from the voters.",
                    voter.node_id,
                )
                self.begin(RemoveRaftVoter(voter_id=voter.node_id, voter_directory_id=voter.directory_id))
                return

    @staticmethod
    def _now_ms() -> int:
        """Return the time of a clock that never goes back; records have the time of the wall clock."""
        return int(get_running_loop().time() * 1000)

    def _batch_of(self, records: Sequence[MetadataRecord]) -> MetadataBatch:
        """Return the batch of a decision on the present image."""
        before = self._controller.image
        return MetadataBatch(
            before.version + 1,
            self._quorum.epoch,
            self._clock.now_ms(),
            records,
            before.metadata_version,
        )

    def _append(
        self, batch: MetadataBatch, replayed: tuple[MetadataImage, MetadataChanges] | None = None
    ) -> None:
        if len(self._pending) >= MAX_PENDING:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "Too many metadata changes are in progress: try again."
            )
        before = self._controller.image
        self._controller.replay(batch, replayed)
        committed: Future[None] = get_running_loop().create_future()
        # No call may wait for the commit any more: the error must not be logged as never retrieved.
        committed.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._pending.append(_Pending(batch, committed))
        try:
            self._quorum.append(batch)
        except KafkaError:
            self._pending.pop()
            self._controller.reset(before)
            raise

    # ---- events of the quorum ------------------------------------------------------------------------------

    def handle_commit(self, batch: MetadataBatch, image: MetadataImage) -> "Future[None] | None":
        """Take over a committed image; return the future of its batch, to be completed after publication."""
        self._committed = image
        self._controller.commit(image)
        if self._pending and self._pending[0].batch.base_offset == batch.base_offset:
            pending = self._pending.popleft()
            assert pending.batch.epoch == batch.epoch, "another leader's batch has the offset of this one's"
            self.commit_times.observe(max(0, self._clock.now_ms() - batch.timestamp_ms) / 1000)
            return pending.committed
        assert not self._pending, "a batch that this leader did not append was committed before its own"
        self._controller.reset(image)
        return None

    def handle_jump(self, image: MetadataImage) -> None:
        """Replace the image by a snapshot's; a leader receives none."""
        self._committed = image
        self._controller.commit(image)
        self._controller.reset(image)

    def lead(self, lost_at_s: Mapping[int, float]) -> None:
        """Begin to decide from the committed image.

        `lost_at_s` has the brokers without a connection to this node, and when each lost it.
        """
        lost_at_ms = {broker_id: int(at_s * 1000) for broker_id, at_s in lost_at_s.items()}
        due = self._controller.activate(self._committed, self._now_ms(), lost_at_ms)
        if due is not None:
            self._append(self._batch_of(due.records))

    def resign(self, detail: str) -> None:
        """Fail the commands whose batches are not committed, with NOT_CONTROLLER."""
        failed, self._pending = self._pending, deque()
        self._controller.reset(self._committed)
        for pending in failed:
            if not pending.committed.done():
                pending.committed.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER, detail))


def _is_large(command: Command) -> bool:
    """Return True if a command may create very many partitions."""
    match command:
        case CreateTopics():
            return any(
                max(topic.num_partitions, len(topic.assignments)) > LARGE_TOPIC for topic in command.topics
            )
        case CreatePartitions():
            return any(topic.count > LARGE_TOPIC for topic in command.topics)
        case _:
            return False
