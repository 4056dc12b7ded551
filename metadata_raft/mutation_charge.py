"""Charges the partitions that a command creates and deletes to the quota of its client (KIP-599).

Soft state: charges are not in any record. A command that is decided again, because another decision came in
between, is not charged twice.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import MutationPayer


class Taken(NamedTuple):
    """The result of a charge: True if the mutations are rejected, and the client's throttle time."""

    is_refused: bool
    throttle_ms: int


# Charges a number of mutations to the quota of a payer.
TakeMutations = Callable[[MutationPayer, int], Taken]

FREE: Final = Taken(False, 0)


class MutationCharge:
    """The charge of one command to a quota, topic by topic."""

    __slots__ = ("_payer", "_take", "_taken", "throttle_ms")

    def __init__(self, payer: MutationPayer, take: TakeMutations) -> None:
        self._payer = payer
        self._take = take
        self._taken: dict[str | bytes, bool] = {}  # topic -> whether its mutations were rejected
        self.throttle_ms = 0

    def take(self, topic: str | bytes, partitions: int) -> None:
        """Charge a mutation for each partition of a topic; THROTTLING_QUOTA_EXCEEDED if they are rejected."""
        is_refused = self._taken.get(topic)
        if is_refused is None:
            is_refused, throttle_ms = self._take(self._payer, partitions)
            self.throttle_ms = max(self.throttle_ms, throttle_ms)
            self._taken[topic] = is_refused
        if is_refused:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")


def free_of_charge() -> MutationCharge:
    """Return a charge that counts for no quota."""
    return MutationCharge(MutationPayer(), lambda payer, partitions: FREE)
