"""The states of a connection and all moves between them.

How the peer's requests are served (`Serving`):

    READY     requests are served as they arrive
    BLOCKED   the peer does not read its responses, so its next request waits until it does
    YIELDING  the peer had its turn, so its further requests wait until other connections had theirs
    WAITING   a request waits for its answer, and may point into the receive buffer
    HELD      the next request waits until no answer is owed
    THROTTLED the peer exceeded a quota: responses are sent, its next request waits for the throttle time
    REFUSED   received bytes are refused: the connection closes once earlier requests have their responses
    CLOSED    nothing more is read, served or answered; responses already written may still be sent

    READY     -> BLOCKED    more is unsent than the transport should hold, or a file is not sent yet
    READY     -> YIELDING   `MAX_REQUESTS_PER_TURN` requests were served in this turn of the loop
    READY     -> WAITING    the answer to a request is not ready, and others must not pass it
    READY     -> HELD       a request arrived that must not pass those whose answers are owed
    READY     -> THROTTLED  an answer reports that the peer exceeded a quota
    READY     -> REFUSED    the bytes are no request that this node serves, and answers are owed
    READY     -> CLOSED     by either side, or by refused bytes when nothing is owed
    BLOCKED   -> READY      all is sent
    BLOCKED   -> THROTTLED  all is sent, and the throttle time is not over
    BLOCKED   -> WAITING    the answers before a request that waits filled what may be unsent
    BLOCKED   -> REFUSED    bytes are refused, and the answers before them filled what may be unsent
    BLOCKED   -> CLOSED     by either side
    YIELDING  -> READY      other connections had their turn
    YIELDING  -> THROTTLED  other connections had their turn, and an owed answer reported an exceeded quota
    YIELDING  -> BLOCKED    other connections had their turn, and the peer does not read
    YIELDING  -> CLOSED     by either side
    WAITING   -> READY      the answer is ready, or is owed from now on
    WAITING   -> BLOCKED    the answer is ready, and the peer does not read
    WAITING   -> WAITING    the awaited result is there, and there is more to wait for
    WAITING   -> THROTTLED  the answer is ready, and reports an exceeded quota
    WAITING   -> REFUSED    the only answer is to close, and answers are owed
    WAITING   -> CLOSED     by either side, or the only answer is to close
    HELD      -> READY      nothing is owed any more
    HELD      -> THROTTLED  nothing is owed any more, and an answer reported an exceeded quota
    HELD      -> BLOCKED    nothing is owed any more, and the peer does not read
    HELD      -> CLOSED     by either side
    THROTTLED -> READY      the throttle time is over
    THROTTLED -> BLOCKED    the throttle time is over, and the peer does not read
    THROTTLED -> REFUSED    a transport with TLS refuses received bytes, and answers are owed
    THROTTLED -> CLOSED     by either side
    REFUSED   -> CLOSED     all earlier answers are sent, or the peer is gone

How the peer is read from (`Reading`):

    ON        bytes are received as the peer sends them
    OFF       not read: one more read was taken while its next request waits, or the buffer is full
    RESTING   not read: it sent much, and others have their turn; for longer while the disk is behind
    STARVED   not read: its buffer has to grow, and the memory of all receive buffers is spent

    ON        -> OFF        a read arrived, or filled the buffer, while the connection was not `READY`
    ON        -> RESTING    its turn of large reads is over
    ON        -> STARVED    the buffer is full, and there is no memory for a larger one
    OFF       -> ON         the next read has room
    OFF       -> RESTING    the next read has room, and the turn of large reads is over
    OFF       -> STARVED    the next read has no room, and there is no memory for it
    RESTING   -> ON         others had their turn
    RESTING   -> STARVED    the half-received frame needs room before others had their turn
    STARVED   -> ON         memory is available again

`CLOSED` ends both: a closed connection is never read from again, whatever its `Reading` was.
"""

from collections.abc import Mapping
from enum import IntEnum


class Serving(IntEnum):
    """The state of serving a peer's requests."""

    READY = 0
    BLOCKED = 1
    YIELDING = 2
    WAITING = 3
    HELD = 4
    THROTTLED = 5
    REFUSED = 6
    CLOSED = 7


class Reading(IntEnum):
    """The state of reading from a peer."""

    ON = 0
    OFF = 1
    RESTING = 2
    STARVED = 3


_S, _R = Serving, Reading

SERVING_MOVES: Mapping[Serving, frozenset[Serving]] = {
    _S.READY: frozenset({_S.BLOCKED, _S.YIELDING, _S.WAITING, _S.HELD, _S.THROTTLED, _S.REFUSED, _S.CLOSED}),
    _S.BLOCKED: frozenset({_S.READY, _S.WAITING, _S.THROTTLED, _S.REFUSED, _S.CLOSED}),
    _S.YIELDING: frozenset({_S.READY, _S.BLOCKED, _S.THROTTLED, _S.CLOSED}),
    _S.WAITING: frozenset({_S.READY, _S.BLOCKED, _S.WAITING, _S.THROTTLED, _S.REFUSED, _S.CLOSED}),
    _S.HELD: frozenset({_S.READY, _S.BLOCKED, _S.THROTTLED, _S.CLOSED}),
    _S.THROTTLED: frozenset({_S.READY, _S.BLOCKED, _S.REFUSED, _S.CLOSED}),
    _S.REFUSED: frozenset({_S.CLOSED}),
    _S.CLOSED: frozenset(),
}

READING_MOVES: Mapping[Reading, frozenset[Reading]] = {
    _R.ON: frozenset({_R.OFF, _R.RESTING, _R.STARVED}),
    _R.OFF: frozenset({_R.ON, _R.RESTING, _R.STARVED}),
    _R.RESTING: frozenset({_R.ON, _R.STARVED}),
    _R.STARVED: frozenset({_R.ON}),
}
