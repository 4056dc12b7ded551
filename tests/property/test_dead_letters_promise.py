"""Dead letters are written exactly once, whichever node fails at whichever step (KIP-1191 promises less)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla.groupcoord.share_state.share_state_words import WriteState
from ottla.node.share import share_partition
from ottla.node.share.dead_letter_queue import DeadLetterQueue
from ottla.node.share.dead_letters import DeadLetters, Note, encode_note, read_note
from ottla.node.share.led_partition import LedPartition
from ottla.node.share.share_partition import SharePartition
from tests.property.dead_letter_world import run
from tests.thorough import some_of


@pytest.mark.slow
@pytest.mark.parametrize("first", some_of(range(0, 60, 10), of_each_run=3))
def test_each_rejected_record_has_one_dead_letter(first: int) -> None:
    for seed in range(first, first + 10):
        cluster = run(seed)

        cluster.check()
        assert cluster.written(), f"seed {seed}"


def test_the_walks_have_failing_leaders_and_many_dead_letters() -> None:
    cluster = run(1)

    assert cluster.epoch > 3
    assert len(cluster.set_aside) > 5


# ---- mutants: each breaks the promise, and a walk detects it -----------------------------------------------


def without_a_note(patch: pytest.MonkeyPatch) -> None:
    begin = SharePartition.begin_letters

    def mutant(core: SharePartition, letters: DeadLetters) -> WriteState:
        return replace(begin(core, letters), dead_letters=None)

    patch.setattr(SharePartition, "begin_letters", mutant)


def a_note_that_is_not_awaited(patch: pytest.MonkeyPatch) -> None:
    persist = DeadLetterQueue._persist

    async def mutant(queue: DeadLetterQueue, led: LedPartition, write: WriteState) -> bool:
        if write.dead_letters is not None and read_note(write.dead_letters).letters is not None:
            return True
        return await persist(queue, led, write)

    patch.setattr(DeadLetterQueue, "_persist", mutant)


def another_epoch_when_it_is_sent_again(patch: pytest.MonkeyPatch) -> None:
    send = DeadLetterQueue._send
    sent: set[DeadLetters] = set()

    async def mutant(queue: DeadLetterQueue, led: LedPartition, letters: DeadLetters) -> bool:
        other = replace(letters, producer_epoch=letters.producer_epoch + (letters in sent))
        sent.add(letters)
        return await send(queue, led, other)

    patch.setattr(DeadLetterQueue, "_send", mutant)


def notes_without_numbers(patch: pytest.MonkeyPatch) -> None:
    """The late duplicate of a note replaces a newer one."""

    def mutant(note: Note) -> bytes:
        return encode_note(note._replace(number=1))

    patch.setattr(share_partition, "encode_note", mutant)


def a_note_that_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    restore = SharePartition.restore

    def mutant(core: SharePartition, *arguments: Any) -> None:
        restore(core, *arguments)
        core.forget_letters()

    patch.setattr(SharePartition, "restore", mutant)


def archived_before_it_is_produced(patch: pytest.MonkeyPatch) -> None:
    send = DeadLetterQueue._send

    async def mutant(queue: DeadLetterQueue, led: LedPartition, letters: DeadLetters) -> bool:
        await queue._persist(led, led.core.end_letters())
        led.core.begin_letters(letters)
        return await send(queue, led, letters)

    patch.setattr(DeadLetterQueue, "_send", mutant)


def archived_and_the_note_stays(patch: pytest.MonkeyPatch) -> None:
    end = SharePartition.end_letters

    def mutant(core: SharePartition) -> WriteState:
        return replace(end(core), dead_letters=None)

    patch.setattr(SharePartition, "end_letters", mutant)


def a_write_that_is_not_repeated(patch: pytest.MonkeyPatch) -> None:
    async def mutant(queue: DeadLetterQueue, led: LedPartition, write: WriteState) -> bool:
        await queue._persister.write([write])
        return not led.is_gone

    patch.setattr(DeadLetterQueue, "_persist", mutant)


def one_epoch_for_all_batches(patch: pytest.MonkeyPatch) -> None:
    """The log takes the second batch of a producer for a duplicate of the first."""
    prepare = DeadLetterQueue._prepare_for

    async def mutant(queue: DeadLetterQueue, led: LedPartition, *arguments: Any) -> Any:
        prepared = await prepare(queue, led, *arguments)
        if prepared.letters is None:
            return prepared
        return prepared._replace(letters=replace(prepared.letters, producer_epoch=0))

    patch.setattr(DeadLetterQueue, "_prepare_for", mutant)


MUTANTS = [
    notes_without_numbers,
    without_a_note,
    a_note_that_is_not_awaited,
    another_epoch_when_it_is_sent_again,
    a_note_that_is_forgotten,
    archived_before_it_is_produced,
    archived_and_the_note_stays,
    a_write_that_is_not_repeated,
    one_epoch_for_all_batches,
]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_detected(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)

    for seed in range(60):
        try:
            run(seed).check()
        except (AssertionError, TimeoutError):
            return
    pytest.fail("no walk detected it")
