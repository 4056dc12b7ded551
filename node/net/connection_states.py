"""The states of a connection, and all the moves between them.

What is done with the requests of the peer (`Serving`):

    READY     what comes is served at once
    BLOCKED   the peer does not read its answers, so its next request waits until it does
    YIELDING  the peer had its turn, so the rest of what it sent waits until others had theirs
    WAITING   a request waits for its answer, and may point into the receive buffer
    HELD      the next request waits until no answer is owed
    THROTTLED the peer went beyond a quota: its answers leave, its next request waits until the time is over
    REFUSED   what came is refused: the connection closes when those before it have their answers
    CLOSED    nothing more is read, served or answered; what was written may still leave

    READY     -> BLOCKED    more is unsent than the transport should hold, or a file is not sent yet
    READY     -> YIELDING   so many requests were served in this turn of the loop
    READY     -> WAITING    the answer to a request is not there, and others must not pass it
    READY     -> HELD       a request came that must not pass those whose answers are owed
    READY     -> THROTTLED  an answer says that the peer went beyond a quota
    READY     -> REFUSED    what came is no request that this node serves, and answers are owed
    READY     -> CLOSED     by either side, or for what came when nothing is owed
    BLOCKED   -> READY      all is sent
    BLOCKED   -> THROTTLED  all is sent, and the throttle time is not over
    BLOCKED   -> WAITING    the answers before a request that waits filled what may be unsent
    BLOCKED   -> REFUSED    what came is refused, and the answers before it filled what may be unsent
    BLOCKED   -> CLOSED     by either side
    YIELDING  -> READY      others had their turn
    YIELDING  -> THROTTLED  others had their turn, and an owed answer told of a quota
    YIELDING  -> BLOCKED    others had their turn, and the peer does not read
    YIELDING  -> CLOSED     by either side
    WAITING   -> READY      the answer is there, or is owed from now on
    WAITING   -> BLOCKED    the answer is there, and the peer does not read
    WAITING   -> WAITING    what was waited for has come, and there is more to wait for
    WAITING   -> THROTTLED  the answer is there, and tells of a quota
    WAITING   -> REFUSED    it has no answer but to close, and answers are owed
    WAITING   -> CLOSED     by either side, or it has no answer but to close
    HELD      -> READY      nothing is owed any more
    HELD      -> THROTTLED  nothing is owed any more, and an answer told of a quota
    HELD      -> BLOCKED    nothing is owed any more, and the peer does not read
    HELD      -> CLOSED     by either side
    THROTTLED -> READY      the throttle time is over
    THROTTLED -> BLOCKED    the throttle time is over, and the peer does not read
    THROTTLED -> REFUSED    a transport with TLS refuses what came, and answers are owed
    THROTTLED -> CLOSED     by either side
    REFUSED   -> CLOSED     its turn has come, or the peer is gone

Whether the peer is read from (`Reading`):

    ON        what it sends is received
    OFF       it is not read from: one more read was taken while its next request waits, or the buffer is full
    RESTING   it sent much, and others have their turn; for longer while the disk is behind
    STARVED   its buffer has to grow, and the memory of all receive buffers is spent

    ON        -> OFF        a read came, or filled the buffer, while the connection was not `READY`
    ON        -> RESTING    its turn of large reads is over
    ON        -> STARVED    the buffer is full, and there is no memory for a larger one
    OFF       -> ON         the next read has room
    OFF       -> RESTING    the next read has room, and the turn of large reads is over
    OFF       -> STARVED    the next read has no room, and there is no memory for it
    RESTING   -> ON         others had their turn
    RESTING   -> STARVED    the half-received frame needs room before others had their turn
    STARVED   -> ON         there is memory again

`CLOSED` ends both: a closed connection is never read from again, whatever its `Reading` was.
"""

from collections.abc import Mapping
from enum import IntEnum


class Serving(IntEnum):
    """How a connection serves the requests of its peer."""

    READY = 0
    BLOCKED = 1
    YIELDING = 2
    WAITING = 3
    HELD = 4
    THROTTLED = 5
    REFUSED = 6
    CLOSED = 7


class Reading(IntEnum):
    """How a connection reads from its peer."""

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
