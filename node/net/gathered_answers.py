"""The order in which the responses of one turn of the loop are sent, and those that are sent together.

Requests that waited for news are answered before the requests that brought it: a consumer sees a record 40 us
sooner if it need not wait until the producer was written to and has woken up.

Waking a sleeping peer costs more than sending to it. Peers that are written to one after another are woken
together; if a request were served in between, each would sleep again. So responses are gathered until the
loop comes round, as long as enough of them come in a turn. If few do, each response is sent at once, and
gathering is tried again for one turn from time to time.

The promise: the responses of a connection are sent in their order, if it sends them here or calls `send_all`
first; and none waits for more than `MAX_GATHERED` others of the turn, or `MAX_AHEAD` that were awaited.
"""

import asyncio
from typing import Final, Protocol

from ottla.logstore.words.schema import Buffer
from ottla.node.net.connection_states import Serving

# From this many responses on, a turn is worth its end, which is one more poll of the kernel: a connection
# with one request at a time lost 5 us a response, and with four nothing was gained.
MIN_GATHERED: Final = 6
# At most this many are gathered: 16 requests take 0.4 ms to serve.
MAX_GATHERED: Final = 16
MAX_KEPT_BYTES: Final = 16 * 1024  # of a response: sending a larger one costs more than a wake-up
MAX_AHEAD: Final = 4  # a fifth consumer of a partition waits for its producer, and not the other way round
# After this many responses sent at once, one turn is tried: with a single connection that costs one poll.
TRY_EVERY: Final = 64
_CLOSED: Final = Serving.CLOSED


class Sender(Protocol):
    """A connection, by the members that are needed here."""

    state: Serving

    def write(self, answer: Buffer, /) -> None: ...


class GatheredAnswers:
    """The gathered responses of all connections of a node."""

    __slots__ = ("_ahead", "_alone", "_answers", "_ends", "_loop", "_sent")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._answers: list[tuple[Sender, Buffer]] = []
        self._sent = 0  # in this turn
        self._ends = 0  # pending calls of `_end_turn`: the last one ends the turn
        self._ahead = 0  # awaited responses sent before the gathered ones
        self._alone = TRY_EVERY  # this many more responses are sent at once

    def gather_until_answered(self) -> None:
        """Gather the responses to other requests until one that waited for news is answered.

        The loop already has the callback that answers it, so the turn ends after that.
        """
        self._end_turn_soon()

    def send_awaited(self, sender: Sender, answer: Buffer) -> None:
        """Send an awaited response ahead of those that were not, or with them in a turn that has many."""
        if not self._alone:
            self.send(sender, answer)
            return
        self._alone -= 1
        answers = self._answers
        if answers:
            if self._ahead >= MAX_AHEAD or any(one is sender for one, _ in answers):
                self.send_all()
            else:
                self._ahead += 1
        sender.write(answer)

    def send(self, sender: Sender, answer: Buffer) -> None:
        """Send a response, now or at the end of the turn."""
        if self._alone and not self._ends:  # otherwise a turn has many, or an awaited response goes first
            self._alone -= 1
            sender.write(answer)
            return
        if len(answer) > MAX_KEPT_BYTES:
            self.send_all()
            sender.write(answer)
            return
        answers = self._answers
        answers.append((sender, answer))
        if not self._ends:
            self._end_turn_soon()
        if len(answers) >= MAX_GATHERED:
            self.send_all()

    def send_all(self) -> None:
        """Send the gathered responses, except to connections that were closed meanwhile."""
        answers = self._answers
        self._ahead = 0
        if answers:
            self._answers = []
            self._sent += len(answers)
            for sender, answer in answers:
                if sender.state is not _CLOSED:
                    sender.write(answer)

    def _end_turn_soon(self) -> None:
        self._ends += 1
        self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._ends -= 1
        if self._ends:
            return
        self.send_all()
        if not self._alone and self._sent < MIN_GATHERED:
            self._alone = TRY_EVERY
        self._sent = 0
