"""Java as the reference for decisions about transactional ids: Kafka's TransactionCoordinator decides too.

Every request is made in every state, with every meaningful pair, at every epoch that matters.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import pytest

from ottla.groupcoord.transactions.transaction import CLIENT_V1, CLIENT_V2, ProducerPair, Transaction
from ottla.groupcoord.transactions.transaction_commands import SweepTimeouts
from ottla.logstore.words.errors import ErrorCode
from tests.compat.java.conftest import AskJava
from tests.compat.java.test_transaction_log import listed, words
from tests.unit.groupcoord.transactions.states import IN_LOG, OTHER_ID, PREVIOUS_ID, PRODUCER_ID, S, at
from tests.unit.groupcoord.transactions.transaction_world import P0, P1, TransactionWorld

NOW_MS = 1_700_000_070_000  # the reference's: transactions began 70 seconds ago, with a timeout of 60 seconds
EPOCHS = (0, 5, 32_765, 32_766, 32_767)

pytestmark = [pytest.mark.java, pytest.mark.slow]


class Case(NamedTuple):
    level: int
    before: Transaction
    verb: str
    pair: tuple[int, int] | None = None
    committed: bool = True
    version: int = CLIENT_V1

    @property
    def question(self) -> str:
        pair = f"{self.pair[0]} {self.pair[1]}" if self.pair else "0 -"
        rest = {
            "init": f" {pair} 40000",
            "add": f" {pair} {listed(frozenset({P1}))} {self.version}",
            "add again": f" {pair} {listed(frozenset({P0}))} {self.version}",
            "verify": f" {pair} {listed(frozenset({P0}))}",
            "verify another": f" {pair} {listed(frozenset({P1}))}",
            "end": f" {pair} {'commit' if self.committed else 'abort'} {self.version}",
            "sweep": "",
        }[self.verb]
        return f"{self.level} {words(self.before)} {self.verb.split()[0]}{rest}"


def cases() -> Iterator[Case]:
    for state, epoch, last in product(IN_LOG, EPOCHS, ("before", "none")):
        before = at(state, epoch, last=max(epoch - 1, -1) if last == "before" else -1)
        pairs = {
            (PRODUCER_ID, epoch),
            (PRODUCER_ID, max(epoch - 1, 0)),
            (PRODUCER_ID, max(epoch - 2, 0)),
            (PRODUCER_ID, min(epoch + 1, 32_767)),
            (PREVIOUS_ID, 32_766),
            (PREVIOUS_ID, 32_765),
            (OTHER_ID, epoch),
        }
        for level in (0, 1, 2):
            yield Case(level, before, "sweep")
            yield Case(level, before, "init")
            for pair in sorted(pairs):
                yield Case(level, before, "init", pair)
        if state in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT):
            ended = at(state, epoch, version=CLIENT_V1)
            for pair, committed in product(sorted(pairs), (True, False)):
                yield Case(2, ended, "end", pair, committed, CLIENT_V1)
                yield Case(2, ended, "end", pair, committed, CLIENT_V2)
        for pair in sorted(pairs):
            for verb in ("verify", "verify another"):
                yield Case(2, before, verb, pair)
            # No client of version 2 gets the epoch 32767.
            for version in (CLIENT_V1, CLIENT_V2) if epoch < 32_767 else (CLIENT_V1,):
                yield Case(2, before, "add", pair, version=version)
                yield Case(2, before, "add again", pair, version=version)
                for committed in (True, False):
                    yield Case(2, before, "end", pair, committed, version)


def test_java_decides_the_same(ask_java: AskJava) -> None:
    all_cases = list(cases())

    answers = answers_of(ask_java, [case.question for case in all_cases])

    different: dict[str, int] = {}
    for case, theirs in zip(all_cases, answers, strict=True):
        ours = decide(case)
        if ours == theirs:
            continue
        reason = why_different(case, ours, theirs)
        assert reason, f"{case}\n ours   {ours}\n theirs {theirs}"
        different[reason] = different.get(reason, 0) + 1
    # Each of these decisions in groupcoord/DESIGN.md still differs from Kafka, or Kafka has been fixed.
    assert different.keys() == {
        "D39",
        "D40: commit",
        "D40: sent again",
        "D40: the last epoch",
        "D40: the id before",
        "D40: no retry",
    }, different


def why_different(case: Case, ours: str, theirs: str) -> str | None:
    """Return the decision in groupcoord/DESIGN.md that explains the difference, or None."""
    our_error, their_error = ours.split()[0], theirs.split()[0]
    if case.verb == "init" and case.before.state is S.ONGOING:
        is_late = case.pair is not None and case.pair != case.before.pair
        return (
            "D39"
            if is_late and (our_error, their_error) == ("PRODUCER_FENCED", "CONCURRENT_TRANSACTIONS")
            else None
        )
    if case.verb == "init" and case.pair == (PREVIOUS_ID, 32_766) and their_error == "NONE":
        return "D40: the id before"
    if case.verb == "init" and their_error == "UNKNOWN_SERVER_ERROR" and case.before.producer_epoch >= 32_766:
        return "D40: sent again" if our_error == "NONE" else "D40: the last epoch"
    if case.verb == "end" and case.version == CLIENT_V2 and case.before.client_version == CLIENT_V1:
        return "D40: no retry" if our_error in ("PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING") else None
    if case.verb == "end" and case.committed and case.before.state is S.COMPLETE_ABORT:
        return "D40: commit" if (our_error, their_error) == ("PRODUCER_FENCED", "INVALID_TXN_STATE") else None
    return None


def decide(case: Case) -> str:
    world = TransactionWorld(level=case.level)
    world.put(case.before)
    world.now_ms = NOW_MS
    seen: object = None
    match case.verb:
        case "init":
            seen = world.init(case.pair, timeout_ms=40_000)
        case "sweep":
            world.handle(SweepTimeouts())
            aborts = case.before.state is S.ONGOING
            return f"{'NONE' if aborts else 'none'} -1 -1 {words(world.current())}"
        case "end":
            assert case.pair is not None
            seen = world.end(case.pair, committed=case.committed, version=case.version)
            if case.version == CLIENT_V1 and isinstance(seen, ProducerPair):
                seen = ErrorCode.NONE  # its response has no fields for a pair
        case _:
            assert case.pair is not None
            partition = P0 if case.verb in ("add again", "verify") else P1
            if case.verb.startswith("add"):
                seen = world.add(case.pair, partition, client_version=case.version)
            else:
                seen = world.verify(case.pair, partition)
    if isinstance(seen, ProducerPair):
        text = f"NONE {seen.producer_id} {seen.producer_epoch}"
    else:
        assert isinstance(seen, ErrorCode)
        text = f"{seen.name} -1 -1"
    return f"{text} {words(world.current())}"


def answers_of(ask_java: AskJava, questions: list[str]) -> list[str]:
    content = "\n".join(questions) + "\n"
    text = ask_java("TransactionDecisionReference", questions=content.encode()).decode()
    return [line for line in text.splitlines() if not line.startswith("[")]
