"""Keeps the reasons why voters have no link, and decides when to log them.

A reason is kept until there is a link or a better reason: a voter that rejects this node may send its reason
once, and later only close the connection. Missing links are logged at growing intervals. Pure: the time is an
argument.
"""

from collections.abc import Mapping
from typing import Final

from ottla.logstore.words.dial_errors import dial_problem, is_refused
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.voters import VoterSet

FIRST_LOG_SECONDS: Final = 3.0  # voters that start at the same time are connected by then
MAX_LOG_SECONDS: Final = 300.0


class LinkTroubles:
    """The missing links of one node."""

    def __init__(self) -> None:
        self._reasons: dict[int, str] = {}
        self._refused: set[int] = set()  # voters that rejected this node with a reason
        self._due_at: float | None = None
        self._pause = FIRST_LOG_SECONDS

    def note(self, voter_id: int, error: Exception) -> None:
        """Record that a link to this voter could not be opened."""
        is_refusal = isinstance(error, KafkaError) and error.code is not ErrorCode.NETWORK_EXCEPTION
        # A voter that cannot be reached any more does not reject this node any more.
        if is_refusal or voter_id not in self._refused or is_refused(error):
            self._reasons[voter_id] = reason_of(error)
            self._refused.discard(voter_id)
            if is_refusal:
                self._refused.add(voter_id)

    def forget(self, voter_id: int) -> None:
        """Forget the reason, as there is a link to this voter."""
        self._reasons.pop(voter_id, None)
        self._refused.discard(voter_id)

    def of(self, missing: VoterSet) -> Mapping[int, str]:
        """Return a text with address and reason for each voter without a link, by node id."""
        return {
            one.node_id: f"voter {one.node_id} at {one.host}:{one.port}"
            + (f" ({reason})" if (reason := self._reasons.get(one.node_id)) is not None else "")
            for one in missing
        }

    def due(self, missing: VoterSet, *, has_majority: bool, now: float, is_new: bool = False) -> str | None:
        """Return the sentence to log now; None if no link is missing, or it was logged recently."""
        if not len(missing):
            self._due_at, self._pause = None, FIRST_LOG_SECONDS
            return None
        if self._due_at is None:
            self._due_at = now + self._pause
        if now < self._due_at:
            return None
        self._pause = min(2 * self._pause, MAX_LOG_SECONDS)
        self._due_at = now + self._pause
        return sentence(self.of(missing), has_majority=has_majority, is_new=is_new)


def sentence(missing: Mapping[int, str], *, has_majority: bool, is_new: bool = False) -> str:
    """Return a sentence with the missing voters and the effect; `is_new` if there never was a leader."""
    if is_new:
        what = (
            "a new quorum begins when all of its voters are up at the same time, since an empty disk may be "
            "one that was lost"
        )
    elif has_majority:
        what = "the other voters are a majority, so the quorum works without them"
    else:
        what = "without them the quorum has no majority"
    return f"Waiting for {', '.join(missing.values())}: {what}."


def reason_of(error: Exception) -> str:
    """Return the reason why a link could not be opened, without a full stop."""
    if isinstance(error, KafkaError):
        return (error.detail or error.code.name).rstrip(".")
    return dial_problem(error).rstrip(".") or "it does not answer"
