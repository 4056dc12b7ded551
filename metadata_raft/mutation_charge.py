"""Counts the partitions that a command makes and deletes against the quota of whoever asked for it (KIP-599).

Soft state: what was taken is in no record. A command that is decided anew, since another decision came in
between, takes nothing twice.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import MutationPayer


class Taken(NamedTuple):
    """A quota's answer: whether mutations are refused, and how long the client has to wait in any case."""

    is_refused: bool
    throttle_ms: int


# Takes so many mutations from the quota of a payer.
TakeMutations = Callable[[MutationPayer, int], Taken]

FREE: Final = Taken(False, 0)


class MutationCharge:
    """Takes the mutations of one command from a quota, topic by topic."""

    __slots__ = ("_payer", "_take", "_taken", "throttle_ms")

    def __init__(self, payer: MutationPayer, take: TakeMutations) -> None:
        self._payer = payer
        self._take = take
        self._taken: dict[str | bytes, bool] = {}  # whether it was refused
        self.throttle_ms = 0

    def take(self, topic: str | bytes, partitions: int) -> None:
        """Take a mutation for each partition of a topic; THROTTLING_QUOTA_EXCEEDED if that is refused."""
        is_refused = self._taken.get(topic)
        if is_refused is None:
            is_refused, throttle_ms = self._take(self._payer, partitions)
            self.throttle_ms = max(self.throttle_ms, throttle_ms)
            self._taken[topic] = is_refused
        if is_refused:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")


def free_of_charge() -> MutationCharge:
    """Return the charge of a command that no quota counts."""
    return MutationCharge(MutationPayer(), lambda payer, partitions: FREE)
