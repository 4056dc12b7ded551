"""Java as the reference for share-partitions: Kafka's own SharePartition runs the same random sessions.

A session has three members, a coordinator that sometimes rejects requests, and a clock. All answers and
states are compared.
"""

from typing import NamedTuple

import pytest

from tests.compat.java.conftest import AskJava
from tests.property.share_sessions import Session

TERMINAL = ("2", "4")

pytestmark = [pytest.mark.java, pytest.mark.slow]


class Answer(NamedTuple):
    """One answer: the result of the request, and the state after it."""

    answer: str
    start: int
    end: int
    following: int
    may_acquire: str
    complete: int
    states: list[tuple[int, int, str]]

    @classmethod
    def of(cls, line: str) -> "Answer":
        answer, start, end, following, may_acquire, complete, states = line.split(" ")
        ranges = []
        for each in filter(None, states.strip("-").split(",")):
            offsets, state = each.split(":", 1)
            first, last = map(int, offsets.split("-"))
            ranges.append((first, last, state))
        return cls(answer, int(start), int(end), int(following), may_acquire, int(complete), ranges)


def answers_of(ask_java: AskJava, sessions: list[Session]) -> list[tuple[str, str, str]]:
    """Return the line, our answer and Kafka's, for each step of all sessions."""
    lines = [line for session in sessions for line in session.lines]
    ours = [answer for session in sessions for answer in session.answers]
    theirs = ask_java("SharePartitionReference", questions="\n".join(lines).encode()).decode().splitlines()
    return list(zip(lines, ours, theirs, strict=True))


def played(seeds: range, **kinds: bool) -> list[Session]:
    sessions = [Session(seed, **kinds) for seed in seeds]
    for session in sessions:
        session.play(60)
    return sessions


def test_java_answers_the_same(ask_java: AskJava) -> None:
    sessions = played(range(500))

    reasons = set()
    for line, ours, theirs in answers_of(ask_java, sessions):
        if ours == theirs:
            continue
        # Kafka throws an exception if offsets span its start offset while no record is in flight there.
        assert theirs.startswith("!NullPointerException"), f"{line}\n ours   {ours}\n theirs {theirs}"
        assert ours.startswith("INVALID_RECORD_STATE"), f"{line}\n ours   {ours}\n theirs {theirs}"
        assert ours.split(" ")[1:] == theirs.split(" ")[1:]
        reasons.add("an exception before the first record in flight")

    assert reasons == {"an exception before the first record in flight"}


@pytest.mark.parametrize("kind", ["has_gaps", "is_compacted", "has_aborted"])
def test_java_differs_only_in_that_our_start_offset_moves_sooner(ask_java: AskJava, kind: str) -> None:
    """Our start offset passes archived records before they are written, and stops at the next gap.

    Kafka's waits for a write, and stops before a batch that a gap might follow.
    """
    sessions = played(range(150), is_roomy=True, **{kind: True})

    sooner = 0
    for line, ours, theirs in answers_of(ask_java, sessions):
        our, their = Answer.of(ours), Answer.of(theirs)
        words = f"{line}\n ours   {ours}\n theirs {theirs}"
        assert stable_answer(our.answer) == stable_answer(their.answer), words
        assert (our.following, our.may_acquire) == (their.following, their.may_acquire), words
        assert our.start >= their.start, words
        assert our.end == their.end or (not our.states and our.end == their.end + 1), words
        before = [(first, min(last, our.start - 1), state) for first, last, state in their.states]
        before = [each for each in before if each[0] <= each[1]]
        assert all(state[0] in TERMINAL for _, _, state in before), words
        assert our.complete == their.complete - sum(last - first + 1 for first, last, _ in before), words
        behind = [(max(first, our.start), last, state) for first, last, state in their.states]
        assert our.states == [each for each in behind if each[0] <= each[1]], words
        sooner += our.start > their.start

    assert sooner


def stable_answer(answer: str) -> str:
    """Return an answer without start offset and count, which are written before the start offset moves."""
    return f"written={answer.rsplit('/', 1)[1]}" if answer.startswith("written=") else answer


def test_java_answers_the_same_while_records_are_deleted_except_for_its_bugs(ask_java: AskJava) -> None:
    sessions = played(range(300), is_roomy=True, is_deleted=True)
    answers = iter(answers_of(ask_java, sessions))

    reasons: dict[str, int] = {}
    for session in sessions:
        different = False
        for _ in session.lines:
            line, ours, theirs = next(answers)
            if not different and not alike(Answer.of(ours), Answer.of(theirs)):
                different = True  # all later steps of this session differ too
                reason = why_different(Answer.of(ours), Answer.of(theirs))
                assert reason, f"{line}\n ours   {ours}\n theirs {theirs}"
                reasons[reason] = reasons.get(reason, 0) + 1

    assert reasons.keys() == {"below its start offset", "before it is written"}, reasons
    assert sum(reasons.values()) < len(sessions) / 4, reasons


def alike(our: Answer, their: Answer) -> bool:
    """Return True if members see no difference.

    Our start offset may be higher, after records that are completed.
    """
    behind = [(max(first, our.start), last, state) for first, last, state in their.states]
    return (
        stable_answer(our.answer) == stable_answer(their.answer)
        and our.following == their.following
        and our.start >= their.start
        and our.states == [each for each in behind if each[0] <= each[1]]
    )


def why_different(our: Answer, their: Answer) -> str | None:
    """Return the fault of Kafka that explains the difference, or None."""
    words = their.answer.removeprefix("acquired=")
    if words != their.answer and words and int(words.split("-")[0]) < their.start:
        # Kafka delivers the deleted records of a batch that also has records that are not deleted.
        return "below its start offset"
    if our.states == their.states and their.following < our.following:
        # Kafka forgets that a release is being written when a part of its batch is deleted.
        return "before it is written"
    return None
