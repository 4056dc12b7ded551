"""Java as the reference for transactional ids: the records of their log and the moves of a transaction.

Both are compared with Apache Kafka's own classes.
"""

from collections.abc import Callable
from itertools import product

import pytest

from ottla.groupcoord.transactions.transaction import (
    CLIENT_V1,
    CLIENT_V2,
    NO_EPOCH,
    NO_PRODUCER_ID,
    ProducerPair,
    Transaction,
    completed,
    emptied,
    fenced,
    needs_new_id,
    prepared,
    with_partitions,
)
from ottla.groupcoord.transactions.transaction_records import (
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from ottla.groupcoord.transactions.transaction_state import AT_REST, PREPARED, TransactionState
from ottla.logstore.words.topic_partition import TopicPartition
from tests.compat.java.conftest import AskJava

IN_LOG = [*AT_REST, *PREPARED, TransactionState.ONGOING]
PARTITIONS = frozenset({TopicPartition("orders", 0), TopicPartition("orders", 7), TopicPartition("é", 300)})
START_MS, UPDATE_MS, NOW_MS = 1_700_000_000_000, 1_700_000_000_500, 1_700_000_060_000
NEXT_ID, TIMEOUT_MS = 77_000, 90_000

pytestmark = [pytest.mark.java, pytest.mark.slow]


def test_java_agrees_about_every_record_and_every_move(ask_java: AskJava) -> None:
    """One JVM answers all questions: its start takes longer than all of them."""
    records = [(state, level) for state in states() for level in (0, 1, 2)]
    ours = [(encode_key(state.transactional_id), encode_value(state, level)) for state, level in records]
    moves = list(all_moves())

    answers = answers_of(
        ask_java,
        [f"write {level} {words(as_read(state, level))}" for state, level in records]
        + [f"read {key.hex()} {value.hex()}" for key, value in ours]
        + [f"move {words(state)} {verb}" for state, verb, _ in moves],
    )

    written, read, moved = (
        answers[: len(records)],
        answers[len(records) : 2 * len(records)],
        answers[2 * len(records) :],
    )
    for (state, level), (key, value), theirs in zip(records, ours, written, strict=True):
        assert not theirs.startswith("!"), (theirs, state, level)
        # Partitions have the order of a hash map, so the bytes are only compared if there is a single one.
        their_key, their_value = (bytes.fromhex(word) for word in theirs.split())
        assert their_key == key and decode_key(key) == state.transactional_id
        assert len(their_value) == len(value)
        assert sorted(their_value) == sorted(value), (state, level)
        if len(state.partitions) < 2:
            assert their_value == value, (state, level)
        assert decode_value("t", their_value) == decode_value("t", value)
    for (state, level), theirs in zip(records, read, strict=True):
        assert theirs == words(as_read(state, level)), (state, level)
    for (state, verb, ours_moved), theirs in zip(moves, moved, strict=True):
        assert words(ours_moved()) == theirs, (state, verb)


def states() -> list[Transaction]:
    """Return every state that a log can hold, with no tag, with one of them, and with all."""
    found = []
    for state, (previous, following), version in product(
        IN_LOG, [(-1, -1), (5, -1), (-1, 6), (5, 6)], (CLIENT_V1, 1, CLIENT_V2)
    ):
        for partitions in (PARTITIONS, frozenset({TopicPartition("t", 1)})):
            found.append(
                Transaction(
                    transactional_id="Zürich",
                    producer_id=4_000,
                    previous_producer_id=previous,
                    next_producer_id=following,
                    producer_epoch=32_767 if following > 0 else 3,
                    timeout_ms=TIMEOUT_MS,
                    state=state,
                    partitions=partitions if state not in AT_REST else frozenset(),
                    start_ms=-1 if state is TransactionState.EMPTY else START_MS,
                    last_update_ms=UPDATE_MS,
                    client_version=version,
                )
            )
    return found


def all_moves() -> list[tuple[Transaction, str, Callable[[], Transaction]]]:
    """Return every move from every state that allows it, at the epochs where something happens."""
    found: list[tuple[Transaction, str, Callable[[], Transaction]]] = []
    for state, epoch, last_epoch in product(IN_LOG, (0, 5, 32_765, 32_766, 32_767), (-1, 4)):
        t = Transaction(
            transactional_id="t",
            producer_id=4_000,
            previous_producer_id=3_000,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=TIMEOUT_MS,
            state=state,
            partitions=PARTITIONS if state not in AT_REST else frozenset(),
            start_ms=-1 if state is TransactionState.EMPTY else START_MS,
            last_update_ms=UPDATE_MS,
            client_version=CLIENT_V2,
        )
        if state in AT_REST:
            found += moves_at_rest(t)
        if state in AT_REST or state is TransactionState.ONGOING:
            found += moves_before_the_end(t)
        if state in PREPARED:
            following = NEXT_ID if epoch == 32_767 else -1
            decided = Transaction(
                **{name: getattr(t, name) for name in t.__dataclass_fields__ if name != "next_producer_id"},
                next_producer_id=following,
            )
            found.append((decided, f"complete {NOW_MS}", lambda t=decided: completed(t, now_ms=NOW_MS)))
    return found


def moves_at_rest(t: Transaction) -> list[tuple[Transaction, str, Callable[[], Transaction]]]:
    found: list[tuple[Transaction, str, Callable[[], Transaction]]] = []

    def emptied_to(pair: ProducerPair, last_epoch: int) -> Callable[[], Transaction]:
        return lambda: emptied(t, pair, last_epoch=last_epoch, timeout_ms=1_000, now_ms=NOW_MS)

    epoch = t.producer_epoch
    if t.pair.is_exhausted:
        for records, last_epoch in (("yes", epoch), ("no", NO_EPOCH)):
            after = emptied_to(ProducerPair(NEXT_ID, 0), last_epoch)
            found.append((t, f"rotate {NEXT_ID} 1000 {NOW_MS} {records}", after))
        return found
    bumped = ProducerPair(t.producer_id, epoch + 1)
    found.append((t, f"increment 1000 - {NOW_MS}", emptied_to(bumped, NO_EPOCH)))
    found.append((t, f"increment 1000 {epoch} {NOW_MS}", emptied_to(bumped, epoch)))
    if t.last_producer_epoch != NO_EPOCH and t.last_producer_epoch != epoch:
        again = emptied_to(t.pair, t.last_producer_epoch)
        found.append((t, f"increment 1000 {t.last_producer_epoch} {NOW_MS}", again))
    return found


def moves_before_the_end(t: Transaction) -> list[tuple[Transaction, str, Callable[[], Transaction]]]:
    found: list[tuple[Transaction, str, Callable[[], Transaction]]] = []
    is_ongoing = t.state is TransactionState.ONGOING
    added = frozenset({TopicPartition("new", 0), TopicPartition("orders", 7)})
    for version in (CLIENT_V1, CLIENT_V2):
        add = lambda v=version: with_partitions(t, added, client_version=v, now_ms=NOW_MS)  # noqa: E731
        found.append((t, f"add {listed(added)} {version} {NOW_MS}", add))
        next_id = NEXT_ID if needs_new_id(t, client_version=version) else NO_PRODUCER_ID
        if is_ongoing:
            fence = lambda v=version, n=next_id: fenced(t, level=v, next_id=n, now_ms=NOW_MS)  # noqa: E731
            found.append((t, f"fence {version} {next_id} {NOW_MS}", fence))
        for committed in (True, False):
            if committed and t.producer_epoch == 32_767:
                continue  # Kafka's epoch would be -32768; no producer with 32767 commits
            if (committed or version == CLIENT_V1) and not is_ongoing:
                continue  # only version 2 aborts a transaction that has not begun
            verb = f"end {'PrepareCommit' if committed else 'PrepareAbort'} {version} {next_id} {NOW_MS}"
            end = lambda c=committed, v=version, n=next_id: prepared(  # noqa: E731
                t, committed=c, client_version=v, next_id=n, now_ms=NOW_MS
            )
            found.append((t, verb, end))
    return found


def as_read(t: Transaction, level: int) -> Transaction:
    """Return the part of a state that is in its record.

    Version 0 has no tags. Kafka fails to write a client's version there, so it stops serving an id when the
    level is lowered; Ottla leaves the client's version out.
    """
    kept = {name: getattr(t, name) for name in t.__dataclass_fields__}
    if level < 1:
        kept |= {"previous_producer_id": -1, "next_producer_id": -1, "client_version": CLIENT_V1}
    return Transaction(**kept)


def words(t: Transaction) -> str:
    fields = (
        t.transactional_id,
        t.producer_id,
        t.previous_producer_id,
        t.next_producer_id,
        t.producer_epoch,
        t.last_producer_epoch,
        t.timeout_ms,
        t.state.value,
        t.start_ms,
        t.last_update_ms,
        t.client_version,
        listed(t.partitions),
    )
    return " ".join(str(field) for field in fields)


def listed(partitions: frozenset[TopicPartition]) -> str:
    return ",".join(sorted(f"{one.topic}:{one.partition}" for one in partitions)) or "-"


def answers_of(ask_java: AskJava, questions: list[str]) -> list[str]:
    content = "\n".join(questions) + "\n"
    return ask_java("TransactionLogReference", questions=content.encode()).decode().splitlines()
