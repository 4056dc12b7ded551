"""Mutants of the sink's protocol, each without one rule; some seed of the simulation must detect each."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

import ottla.pipeline.sink.driver as driver
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.sink.batch_messages import TaskReport
from ottla.pipeline.sink.driver import Driver
from ottla.pipeline.sink.slots import Participant, Slot
from ottla.pipeline.sink.task_transaction import TaskTransaction
from tests.simulation.sink_model import ModelCluster

Mutate = Callable[[pytest.MonkeyPatch], None]


def no_fencing(patch: pytest.MonkeyPatch) -> None:
    """Let a new driver use the pair of the previous one."""
    init = ModelCluster.init

    def kept(self: ModelCluster, ids: Sequence[str], **more: Any) -> dict[str, ProducerPair]:
        pairs = {
            name: self.ids[name].pair
            for name in ids
            if name == "T-c" and name in self.ids and self.ids[name].state != "Ongoing"
        }
        return pairs | init(self, [name for name in ids if name not in pairs], **more)

    patch.setattr(ModelCluster, "init", kept)


def no_liveness_check(patch: pytest.MonkeyPatch) -> None:
    """Decide a batch without checking its transactions."""
    patch.setattr(driver, "find_expired", lambda parts, described: {})


def no_roll_forward(patch: pytest.MonkeyPatch) -> None:
    """Do not roll a decided batch forward."""
    whole = driver.roll_forward
    patch.setattr(
        driver,
        "roll_forward",
        lambda record, described, **more: replace(whole(record, described), to_commit=(), lost=()),
    )


def abort_without_reading_the_decision(patch: pytest.MonkeyPatch) -> None:
    """Abort the transactions of a commit that failed, even if it failed after the decision."""

    def abort(self: Driver, reports: Sequence[TaskReport], batch_id: int) -> None:
        pairs = {
            self._names.id_of_slot(one.participant.slot): one.participant.pair
            for one in reports
            if one.participant
        }
        self._cluster.end(pairs, commit=False)

    patch.setattr(Driver, "abort", abort)


def slots_without_tickets(patch: pytest.MonkeyPatch) -> None:
    """Let each attempt take the first slot that looks free."""

    def take_slot(self: TaskTransaction) -> Participant:
        slots = self._begun.slots
        open_ones = self._cluster.list_open("T-") or set()
        free = [one for one in slots if self._names.id_of_slot(one.slot) not in open_ones]
        self._participant = (free or slots)[0]
        return self._participant

    patch.setattr(TaskTransaction, "take_slot", take_slot)


def slots_of_a_decided_batch_again(patch: pytest.MonkeyPatch) -> None:
    """Use the slots of a decided batch also for the next one."""
    whole = driver.slots_to_prepare
    patch.setattr(driver, "slots_to_prepare", lambda **arguments: whole(**{**arguments, "record": None}))


def an_old_driver_aborts_open_transactions(patch: pytest.MonkeyPatch) -> None:
    """Abort what an old driver finds open, although a newer driver has begun."""
    patch.setattr(Driver, "_check_newest", lambda self, generation: None)


def drivers_that_share_slots(patch: pytest.MonkeyPatch) -> None:
    """Give each driver the slots of the previous one."""
    patch.setattr(driver, "incarnation_of", lambda pair: 0)


def slots_with_their_old_pairs(patch: pytest.MonkeyPatch) -> None:
    """Let a process hand out the pairs of its earlier batch again, so that its zombies are not fenced."""
    begin = Driver.begin

    def again(self: Driver) -> Any:
        before = self._incarnations.get(self._options)
        begun = begin(self)
        if before is None or before.begun.incarnation != begun.incarnation:
            return begun
        old = {one.slot: one for one in before.begun.slots}
        pairs = {self._names.id_of_slot(one.slot): one.pair for one in old.values()}
        for name, pair in pairs.items():
            self._cluster.ids[name].pair = pair  # type: ignore[attr-defined]
        slots = tuple(old.get(one.slot, one) for one in begun.slots)
        return replace(begun, slots=slots)

    patch.setattr(Driver, "begin", again)


def no_sweep(patch: pytest.MonkeyPatch) -> None:
    """Leave open what others left open."""
    patch.setattr(Driver, "_left_open", lambda self, generation: set[Slot]())


MUTANTS: tuple[Mutate, ...] = (
    no_fencing,
    no_liveness_check,
    no_roll_forward,
    abort_without_reading_the_decision,
    slots_without_tickets,
    slots_of_a_decided_batch_again,
    an_old_driver_aborts_open_transactions,
    drivers_that_share_slots,
    slots_with_their_old_pairs,
    no_sweep,
)
