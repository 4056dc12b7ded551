"""Scenarios of share-partitions as text: commands, `----`, and their results. `REWRITE=1` renews the results.

    config NAME=NUMBER ...          settings of the coordinator; before any other command
    initialize KEY [epoch=N] [start=N]
    write KEY [BATCH ...] [epoch=N] [leader=N] [start=N] [done=N]
    read KEY [leader=N] | summary KEY | delete KEY
    forget TOPIC ...                topics are deleted
    after SECONDSs | crash
    slow | commit                   appended records wait for replicas; all of them are committed

KEY is GROUP-TOPIC-PARTITION, of topics 1 and 2 with two partitions each; a BATCH is FIRST-LAST:STATE:COUNT,
where STATE is `available`, `acked` or `archived`. Results are answers, appended records, and the start of the
log.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from ottla.groupcoord.share_state.share_state_commands import ForgetTopics
from ottla.groupcoord.share_state.share_state_config import ShareCoordinatorConfig
from ottla.groupcoord.share_state.share_state_records import SnapshotRecord, UpdateRecord
from ottla.groupcoord.share_state.share_state_words import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateSummary,
    SharePartitionKey,
    StateAnswer,
    StateBatch,
    StateRead,
    StateRequest,
    StateSummary,
    WriteState,
)
from ottla.logstore.words.errors import ErrorCode
from tests.scenario.scenario import assert_results, milliseconds, parsed
from tests.unit.groupcoord.share_state.share_state_world import ShareStateWorld, key_of, topic_id

SCENARIOS = sorted((Path(__file__).parent / "share_state").glob("*.txt"))
STATES = {"available": AVAILABLE, "acked": ACKNOWLEDGED, "archived": ARCHIVED}
WORDS = {state: word for word, state in STATES.items()}


def key(word: str) -> SharePartitionKey:
    group, topic, partition = word.split("-")
    return key_of(group, int(topic), int(partition))


def name(key: SharePartitionKey) -> str:
    return f"{key.group}-{int.from_bytes(key.topic_id[8:])}-{key.partition}"


def batch(word: str) -> StateBatch:
    offsets, state, count = word.split(":")
    first, last = offsets.split("-")
    return StateBatch(int(first), int(last), STATES[state], int(count))


def batch_words(batches: Iterable[StateBatch]) -> str:
    return "".join(f" {first}-{last}:{WORDS[state]}:{count}" for first, last, state, count in batches)


class Runner:
    """Carries out the commands of a scenario and returns their results."""

    def __init__(self) -> None:
        self.config: dict[str, int] = {}
        self._world: ShareStateWorld | None = None
        self.requests: dict[int, str] = {}
        self.reported: set[int] = set()
        self.records_reported = 0
        self.start_reported = 0

    @property
    def world(self) -> ShareStateWorld:
        if self._world is None:
            settings = {f"share_coordinator_{name}": value for name, value in self.config.items()}
            self._world = ShareStateWorld(ShareCoordinatorConfig(**settings))
        return self._world

    def run(self, line: str) -> list[str]:
        verb, words, options = parsed(line)
        getattr(self, f"do_{verb}")(words, {name: int(value) for name, value in options.items()})
        return list(self.seen())

    def submit(self, verb: str, request: StateRequest) -> None:
        token = self.world.submit(request)
        self.requests[token] = f"{verb} {name(request.key)}"

    # ---- commands ------------------------------------------------------------------------------------------

    def do_config(self, _: list[str], options: dict[str, int]) -> None:
        self.config = options

    def do_initialize(self, words: list[str], options: dict[str, int]) -> None:
        state_epoch, start_offset = options.get("epoch", 0), options.get("start", 0)
        self.submit("initialize", InitializeState(key(words[0]), state_epoch, start_offset))

    def do_write(self, words: list[str], options: dict[str, int]) -> None:
        request = WriteState(
            key(words[0]),
            options.get("epoch", 0),
            options.get("leader", 0),
            options.get("start", -1),
            options.get("done", 0),
            [batch(word) for word in words[1:]],
        )
        self.submit("write", request)

    def do_read(self, words: list[str], options: dict[str, int]) -> None:
        self.submit("read", ReadState(key(words[0]), options.get("leader", 0)))

    def do_summary(self, words: list[str], _: dict[str, int]) -> None:
        self.submit("summary", ReadStateSummary(key(words[0])))

    def do_delete(self, words: list[str], _: dict[str, int]) -> None:
        self.submit("delete", DeleteState(key(words[0])))

    def do_forget(self, words: list[str], _: dict[str, int]) -> None:
        gone = [topic_id(int(word)) for word in words]
        self.world.gone += gone
        self.world.handle(ForgetTopics(topic_ids=frozenset(gone)))

    def do_after(self, words: list[str], _: dict[str, int]) -> None:
        self.world.advance(milliseconds(words[0]))

    def do_crash(self, _: list[str], __: dict[str, int]) -> None:
        self.world.crash()
        self.records_reported = len(self.world.rows)

    def do_slow(self, _: list[str], __: dict[str, int]) -> None:
        self.world.commits = False

    def do_commit(self, _: list[str], __: dict[str, int]) -> None:
        self.world.commits = True
        self.world.commit()

    # ---- results -------------------------------------------------------------------------------------------

    def seen(self) -> Iterator[str]:
        world = self.world
        for record in world.records[self.records_reported :]:
            match record:
                case SnapshotRecord(of, None):
                    yield f"log: {name(of)} is gone"
                case SnapshotRecord(of, state):
                    assert state is not None
                    epochs = f"epoch={state.state_epoch} leader={state.leader_epoch}"
                    yield (
                        f"log: snapshot {state.snapshot_epoch} of {name(of)}, {epochs}"
                        f" start={state.start_offset}{batch_words(state.batches)}"
                    )
                case UpdateRecord(of, update):
                    yield (
                        f"log: update of {name(of)}, leader={update.leader_epoch}"
                        f" start={update.start_offset}{batch_words(update.batches)}"
                    )
        self.records_reported = len(world.rows)
        for token, answer in world.answers.items():
            if token not in self.reported:
                self.reported.add(token)
                yield f"{self.requests[token]}: {answer_words(answer)}"
        if world.log_start_offset != self.start_reported:
            self.start_reported = world.log_start_offset
            yield f"the log begins at {self.start_reported}"


def answer_words(answer: StateAnswer) -> str:
    if answer.error is not ErrorCode.NONE:
        return answer.error.name
    match answer:
        case StateRead():
            return f"epoch={answer.state_epoch} start={answer.start_offset}{batch_words(answer.batches)}"
        case StateSummary():
            return (
                f"epoch={answer.state_epoch} leader={answer.leader_epoch} start={answer.start_offset}"
                f" done={answer.delivery_complete_count}"
            )
        case _:
            return "ok"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_scenario_has_the_results_in_its_file(path: Path) -> None:
    assert_results(path, Runner().run)
