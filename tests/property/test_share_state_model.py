"""The share coordinator against a simple model, which keeps the state of each offset, in random walks.

The steps are requests, crashes that lose uncommitted records, pruning, snapshots and deleted topics. Then:

    a response stays true: a state that was written is read, whichever coordinator loads the log
    a read returns, for each offset from the start on, the highest count and state that were written
    a leader older than the newest one that has read, or than the newest state, changes nothing
    the log start offset stays below all records that the states need
"""

from dataclasses import dataclass, field
from random import Random

import pytest

from ottla.groupcoord.share_state.share_state_commands import ForgetTopics
from ottla.groupcoord.share_state.share_state_config import ShareCoordinatorConfig
from ottla.groupcoord.share_state.share_state_words import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateSummary,
    SharePartitionKey,
    StateAnswer,
    StateBatch,
    StateRead,
    StateRequest,
    StateResult,
    StateSummary,
    WriteState,
)
from ottla.logstore.words.errors import ErrorCode as E
from tests.unit.groupcoord.share_state.share_state_world import ShareStateWorld, key_of, topic_id

WALKS, STEPS, OFFSETS = 24, 250, 40
pytestmark = pytest.mark.slow
KEYS = [key_of(group, topic, partition) for group in "gh" for topic in (1, 2) for partition in (0, 1)]


@dataclass
class Model:
    """The state of a share-partition, by offset."""

    state_epoch: int
    start_offset: int
    highest_state_epoch: int
    highest_leader_epoch: int = 0
    leader_epoch: int = 0
    complete: int = 0
    note: bytes = b""
    states: dict[int, tuple[int, int]] = field(default_factory=dict)

    def copy(self) -> "Model":
        return Model(
            self.state_epoch,
            self.start_offset,
            self.highest_state_epoch,
            self.highest_leader_epoch,
            self.leader_epoch,
            self.complete,
            self.note,
            dict(self.states),
        )

    def cut(self) -> None:
        self.states = {offset: state for offset, state in self.states.items() if offset >= self.start_offset}


class Models:
    def __init__(self) -> None:
        self.known: dict[SharePartitionKey, Model] = {}
        self.gone: set[bytes] = set()

    def expected(self, request: StateRequest) -> StateAnswer | E:
        """Apply a request to the model, and return the expected response, or the code of an error."""
        key, known = request.key, self.known.get(request.key)
        has_topic = key.topic_id not in self.gone
        match request:
            case InitializeState(_, state_epoch, start_offset):
                if known is not None and -1 != state_epoch < known.highest_state_epoch:
                    return E.FENCED_STATE_EPOCH
                if not has_topic:
                    return E.UNKNOWN_TOPIC_OR_PARTITION
                before = known or Model(0, 0, state_epoch)
                self.known[key] = Model(
                    state_epoch,
                    start_offset,
                    max(before.highest_state_epoch, state_epoch),
                    before.highest_leader_epoch,
                    complete=-1 if start_offset == -1 else 0,
                )
                return StateResult(key)
            case DeleteState():
                if not has_topic:
                    return E.UNKNOWN_TOPIC_OR_PARTITION
                self.known.pop(key, None)
                return StateResult(key)
            case ReadStateSummary():
                if not has_topic:
                    return E.UNKNOWN_TOPIC_OR_PARTITION
                if known is None:
                    return StateSummary(key, start_offset=-1)
                return StateSummary(
                    key,
                    state_epoch=known.state_epoch,
                    leader_epoch=known.leader_epoch,
                    start_offset=known.start_offset,
                    delivery_complete_count=known.complete,
                )
            case ReadState(_, leader_epoch) if known is not None:
                if -1 != leader_epoch < known.highest_leader_epoch:
                    return E.FENCED_LEADER_EPOCH
                if not has_topic:
                    return E.UNKNOWN_TOPIC_OR_PARTITION
                if leader_epoch not in (-1, known.highest_leader_epoch):
                    known.leader_epoch = known.highest_leader_epoch = leader_epoch
                return StateRead(key, state_epoch=known.state_epoch, start_offset=known.start_offset)
            case WriteState() if known is not None:
                return self._write(known, request) if has_topic else self._fenced(known, request)
            case _:
                return E.INVALID_REQUEST

    def _fenced(self, known: Model, request: WriteState) -> E:
        if -1 != request.leader_epoch < known.highest_leader_epoch:
            return E.FENCED_LEADER_EPOCH
        if -1 != request.state_epoch < known.highest_state_epoch:
            return E.FENCED_STATE_EPOCH
        return E.UNKNOWN_TOPIC_OR_PARTITION

    def _write(self, known: Model, request: WriteState) -> StateAnswer | E:
        fenced = self._fenced(known, request)
        if fenced is not E.UNKNOWN_TOPIC_OR_PARTITION:
            return fenced
        if not -1 != request.start_offset < known.start_offset:
            if request.start_offset != -1:
                known.start_offset = request.start_offset
            known.complete = request.delivery_complete_count
        if request.dead_letters is not None and request.dead_letters[7] >= (known.note or bytes(8))[7]:
            known.note = request.dead_letters
        for one in request.batches:
            for offset in range(one.first_offset, one.last_offset + 1):
                state = known.states.get(offset, (-1, -1))
                known.states[offset] = max(state, (one.delivery_count, one.delivery_state))
        known.cut()
        return StateResult(request.key)

    def copy(self) -> "Models":
        copied = Models()
        copied.known = {key: known.copy() for key, known in self.known.items()}
        copied.gone = set(self.gone)
        return copied


def random_request(random: Random) -> StateRequest:
    key = random.choice(KEYS)
    state_epoch, leader_epoch = random.choice((-1, 0, 0, 1, 2)), random.choice((-1, 0, 0, 1, 2, 3))
    match random.randrange(12):
        case 0 | 1:
            return InitializeState(key, max(0, state_epoch), random.choice((-1, random.randrange(OFFSETS))))
        case 2 | 3:
            return ReadState(key, leader_epoch)
        case 4:
            return ReadStateSummary(key)
        case 5 if random.random() < 0.3:
            return DeleteState(key)
        case _:
            start_offset = random.choice((-1, -1, random.randrange(OFFSETS)))
            batches = [random_batch(random) for _ in range(random.randrange(4))]
            complete = random.randrange(9)
            note = random.choice((None, None, bytes(7) + bytes((random.randrange(5),)) + random.randbytes(3)))
            return WriteState(key, max(0, state_epoch), leader_epoch, start_offset, complete, batches, note)


def random_batch(random: Random) -> StateBatch:
    first = random.randrange(OFFSETS)
    return StateBatch(first, first + random.randrange(9), random.choice((0, 2, 3, 4)), random.randrange(1, 4))


@pytest.mark.parametrize("seed", range(WALKS))
def test_every_response_is_that_of_the_model(seed: int) -> None:
    random = Random(seed)
    config = ShareCoordinatorConfig(
        share_coordinator_snapshot_update_records_per_snapshot=random.choice((0, 1, 2, 5, 500)),
        share_coordinator_state_topic_prune_interval_ms=3_000,
        share_coordinator_cold_partition_snapshot_interval_ms=10_000,
    )
    world, models = ShareStateWorld(config), Models()
    committed = models.copy()
    waiting: dict[int, tuple[StateRequest, StateAnswer | E, Model | None]] = {}
    for _ in range(STEPS):
        dice = random.random()
        if dice < 0.8:
            request = random_request(random)
            expected = models.expected(request)
            token = world.submit(request)
            known = models.known.get(request.key)
            waiting[token] = request, expected, None if known is None else known.copy()
        elif dice < 0.86:
            # The coordinator does its deferred work, whose records are committed with the others.
            world.advance(random.randrange(4_000))
        elif dice < 0.9:
            world.commits = not world.commits
        elif dice < 0.95:
            world.crash()
            waiting = {token: one for token, one in waiting.items() if token in world.answers}
            models = committed.copy()
            forget_leaders(world, models)
        elif dice < 0.96 and not models.gone:
            gone = topic_id(2)
            world.gone.append(gone)
            world.handle(ForgetTopics(topic_ids=frozenset({gone})))
            models.gone.add(gone)
            models.known = {key: one for key, one in models.known.items() if key.topic_id != gone}
            committed.gone.add(gone)
            committed.known = {key: one for key, one in committed.known.items() if key.topic_id != gone}
            world.commit()
        if world.commits:
            world.commit()
        if world.committed == len(world.rows):
            committed = models.copy()
        for token in [token for token in waiting if token in world.answers]:
            check_answer(world.answers[token], *waiting.pop(token))

    world.commit()
    for key in KEYS:
        request = ReadState(key, -1)
        known = models.known.get(key)
        check_answer(world.ask(request), request, models.expected(request), known and known.copy())


def forget_leaders(world: ShareStateWorld, models: Models) -> None:
    """Lower the model's leader epochs to those that a coordinator finds when it loads a pruned log.

    As in Kafka, a state that was initialized again does not have the previous leader's epoch; the state epoch
    fences that leader.
    """
    for key, known in models.known.items():
        found = world.shard.states[key].leader_epoch
        assert known.leader_epoch <= found <= known.highest_leader_epoch
        known.highest_leader_epoch = found


def check_answer(
    answer: StateAnswer, request: StateRequest, expected: StateAnswer | E, known: Model | None
) -> None:
    if isinstance(expected, E):
        assert answer.error is expected, (request, answer)
    elif isinstance(answer, StateRead):
        assert isinstance(expected, StateRead) and known is not None, (request, answer)
        numbers = answer.error, answer.state_epoch, answer.start_offset
        assert numbers == (expected.error, expected.state_epoch, expected.start_offset), request
        assert answer.dead_letters == known.note, request
        found = {
            offset: (one.delivery_count, one.delivery_state)
            for one in answer.batches
            for offset in range(one.first_offset, one.last_offset + 1)
        }
        assert found == known.states, (request, answer)
    else:
        assert answer == expected, request
