"""Java as the reference for the share coordinator, each part beside Apache Kafka's own class.

The parts are the combination of batches, the bytes of records, and whole sessions of a shard.
"""

from dataclasses import replace
from random import Random

import pytest

from ottla.groupcoord.share_state.combine_batches import combine_batches
from ottla.groupcoord.share_state.share_state import Update
from ottla.groupcoord.share_state.share_state_commands import ForgetTopics, SnapshotColdPartitions
from ottla.groupcoord.share_state.share_state_config import ShareCoordinatorConfig
from ottla.groupcoord.share_state.share_state_effects import Append, Effect
from ottla.groupcoord.share_state.share_state_records import UpdateRecord, encode_record
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
    StateSummary,
    WriteState,
)
from ottla.logstore.words.topic_partition import uuid_to_text
from tests.compat.java.conftest import AskJava
from tests.unit.groupcoord.share_state.share_state_world import ShareStateWorld, key_of, topic_id
from tests.unit.groupcoord.share_state.test_combine_batches import KAFKAS
from tests.unit.groupcoord.share_state.test_share_state_records import RECORDS

pytestmark = [pytest.mark.java, pytest.mark.slow]

COMBINED, SESSIONS, STEPS = 2_000, 40, 60
COLD_MS = 10_000


def test_java_agrees_about_batches_records_and_whole_sessions(ask_java: AskJava) -> None:
    """One JVM answers all questions: its start takes longer than all of them."""
    random = Random(932)
    cases = [(known, written, start) for known, written, start, _ in KAFKAS]
    cases += [random_case(random) for _ in range(COMBINED)]
    records = [encode_record(record) for record in RECORDS]
    records += [encode_record(UpdateRecord(key_of(), random_update(random))) for _ in range(200)]
    sessions = [play(random) for _ in range(SESSIONS)]

    answers = answers_of(
        ask_java,
        [f"combine {start} {known or '-'} {written or '-'}" for known, written, start in cases]
        + [f"reread {key.hex()} {hex_of(value)}" for key, value in records]
        + [question for session in sessions for question, _ in session],
    )

    combined, reread = answers[: len(cases)], answers[len(cases) : len(cases) + len(records)]
    for (known, written, start), theirs in zip(cases, combined, strict=True):
        ours = combine_batches(combine_batches((), parsed(known), -1), parsed(written), start)
        assert opened(ours) == opened(parsed(theirs)), (known, written, start)
        # Kafka does not always join neighbours of the same state; ours are joined.
        assert ours == joined(parsed(theirs)), (known, written, start)
    for (key, value), theirs in zip(records, reread, strict=True):
        assert theirs == f"{key.hex()} {hex_of(value)}"
    at = len(cases) + len(records)
    for session in sessions:
        for step, (question, ours) in enumerate(session):
            assert ours == answers[at], (question, session[: step + 1])
            at += 1


def answers_of(ask_java: AskJava, questions: list[str]) -> list[str]:
    answers = ask_java("ShareStateReference", questions="\n".join(questions).encode()).decode().splitlines()
    assert len(answers) == len(questions)
    return answers


def hex_of(value: bytes | None) -> str:
    return "-" if value is None else value.hex()


# ---- batches -----------------------------------------------------------------------------------------------


def parsed(text: str) -> tuple[StateBatch, ...]:
    return (
        () if text in ("", "-") else tuple(StateBatch(*map(int, one.split(":"))) for one in text.split(","))
    )


def words(batches: tuple[StateBatch, ...] | list[StateBatch]) -> str:
    return ",".join(":".join(map(str, batch)) for batch in batches) or "-"


def opened(batches: tuple[StateBatch, ...]) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(batch.first_offset, batch.last_offset + 1):
            assert offset not in found, batches
            found[offset] = batch[2:]
    return found


def joined(batches: tuple[StateBatch, ...]) -> tuple[StateBatch, ...]:
    found: list[StateBatch] = []
    for batch in sorted(batches):
        if found and found[-1].last_offset + 1 == batch.first_offset and found[-1][2:] == batch[2:]:
            batch = batch._replace(first_offset=found.pop().first_offset)
        found.append(batch)
    return tuple(found)


def random_batch(random: Random) -> StateBatch:
    first = random.randrange(30)
    return StateBatch(first, first + random.randrange(8), random.choice((0, 2, 3, 4)), random.randrange(1, 4))


def random_case(random: Random) -> tuple[str, str, int]:
    known = combine_batches((), [random_batch(random) for _ in range(random.randrange(5))], -1)
    written = [random_batch(random) for _ in range(random.randrange(5))]
    return words(known), words(written), random.choice((-1, random.randrange(40)))


def random_update(random: Random) -> Update:
    batches = combine_batches((), [random_batch(random) for _ in range(random.randrange(200))], -1)
    return Update(
        random.randrange(2**31),
        random.randrange(-1, 2**31),
        random.randrange(-1, 2**62),
        random.randrange(-1, 2**31),
        batches,
    )


# ---- sessions ----------------------------------------------------------------------------------------------


def play(random: Random) -> list[tuple[str, str]]:
    """Send random requests to a shard of ours, and return the questions for Kafka's with our answers."""
    updates = random.choice((0, 1, 3, 10))
    world = ShareStateWorld(
        ShareCoordinatorConfig(
            share_coordinator_snapshot_update_records_per_snapshot=updates,
            share_coordinator_cold_partition_snapshot_interval_ms=COLD_MS,
        )
    )
    lines = [(f"shard {updates} {COLD_MS}", "")]
    for _ in range(STEPS):
        if random.random() < 0.3:
            world.now_ms += random.randrange(COLD_MS)
        lines.append((f"at {world.now_ms}", ""))
        draw = random.random()
        if draw < 0.08:
            effects = world.handle(SnapshotColdPartitions())
            lines.append((f"cold {keys_of(effects)}", in_words(effects)))
        elif draw < 0.12:
            topic = random.randrange(1, 4)
            effects = world.handle(ForgetTopics(topic_ids=frozenset({topic_id(topic)})))
            lines.append((f"forget {topic} {keys_of(effects)}", in_words(effects)))
        elif draw < 0.2:
            offset = world.shard.redundant.start_offset
            lines.append(("redundant", "-" if offset is None else str(offset)))
        else:
            lines.append(ask(random, world))
    return lines


def ask(random: Random, world: ShareStateWorld) -> tuple[str, str]:
    topic, partition = random.choice((1, 1, 1, 2, 3)), random.choice((0, 0, 1, 2, -1))
    key = key_of(random.choice("gh"), topic, partition)
    request = random_request(random, key)
    known = world.shard.states.get(key)
    least = -1 if known is None else known.current.start_offset
    if isinstance(request, WriteState) and -1 != request.start_offset < least:
        # In Kafka a late write sets the start offset back; in Ottla it does not (groupcoord D66).
        request = replace(request, start_offset=least)
    before = len(world.rows)
    answer = world.ask(request)
    written = [f"{key_.hex()}={hex_of(value)}" for key_, value in world.rows[before:]]
    named = f"{key.group} {topic} {partition}"
    return question(request, named), " ".join([answer_words(answer), *written])


def random_request(random: Random, key: SharePartitionKey) -> StateRequest:
    epoch, leader_epoch = random.randrange(-1, 4), random.randrange(-1, 5)
    start_offset = random.choice((-1, random.randrange(30)))
    match random.randrange(10):
        case 0 | 1:
            return InitializeState(key, epoch, start_offset)
        case 2 | 3:
            return ReadState(key, leader_epoch)
        case 4:
            return ReadStateSummary(key, leader_epoch)
        case 5:
            return DeleteState(key)
        case _:
            batches = tuple(random_batch(random) for _ in range(random.randrange(4)))
            return WriteState(key, epoch, leader_epoch, start_offset, random.randrange(-1, 9), batches)


def question(request: StateRequest, named: str) -> str:
    match request:
        case InitializeState(_, state_epoch, start_offset):
            return f"initialize {named} {state_epoch} {start_offset}"
        case ReadState(_, leader_epoch):
            return f"read {named} {leader_epoch}"
        case ReadStateSummary(_, leader_epoch):
            return f"summary {named} {leader_epoch}"
        case DeleteState():
            return f"delete {named}"
        case WriteState(_, state_epoch, leader_epoch, start_offset, complete, batches):
            numbers = f"{state_epoch} {leader_epoch} {start_offset} {complete}"
            return f"write {named} {numbers} {words(tuple(batches))}"


def answer_words(answer: StateAnswer) -> str:
    match answer:
        case StateRead():
            numbers = f"{answer.error.value} {answer.state_epoch} {answer.start_offset}"
            return f"{numbers} {words(answer.batches)}"
        case StateSummary():
            # In an error response the other fields of a message keep their defaults.
            complete = answer.delivery_complete_count
            return (
                f"{answer.error.value} {answer.state_epoch} {answer.leader_epoch} {answer.start_offset}"
                f" {complete}"
            )
        case _:
            return str(answer.error.value)


def rows_of(effects: list[Effect]) -> list[tuple[bytes, bytes | None]]:
    appended = [record for effect in effects if isinstance(effect, Append) for record in effect.records]
    return [encode_record(record) for record in appended]


def keys_of(effects: list[Effect]) -> str:
    return ",".join(key.hex() for key, _ in rows_of(effects)) or "-"


def in_words(effects: list[Effect]) -> str:
    return " ".join(f"{key.hex()}={hex_of(value)}" for key, value in rows_of(effects))


def test_the_key_of_a_coordinator_is_kafkas() -> None:
    key = key_of("a:b", 1, 7)

    assert key.coordinator_key == f"a:b:{uuid_to_text(topic_id(1))}:7"
