"""Which answers of one turn of the loop leave first, and which together.

Who waited for news is answered before those whose requests brought it: a consumer sees a record 40 us sooner
when it need not wait until the producer was written to and has been woken.

To wake a peer that sleeps costs more than to send to it. What is sent one behind another finds those who read
it still awake; with the next request served in between, each is asleep again. So answers are kept until the
loop comes round, as long as enough of them come in a turn. Where few do, an answer leaves when it is there,
and now and then a turn is tried.

The promise: the answers of a connection leave in their order, if it sends them here or calls `send_all`
first; and none waits for more than `MAX_GATHERED` others of the turn, or `MAX_AHEAD` who waited.
"""

import asyncio
from typing import Final, Protocol

from ottla.logstore.words.schema import Buffer
from ottla.node.net.connection_states import Serving

# So many answers in a turn are worth its end, which is one more question to the kernel for what is ready: one
# connection that asks for one thing at a time lost 5 us an answer, with four nothing was won.
MIN_GATHERED: Final = 6
# So many are kept at most: 16 requests take 0.4 ms to serve.
MAX_GATHERED: Final = 16
MAX_KEPT_BYTES: Final = 16 * 1024  # of an answer: to send a larger one costs more than to wake for it
MAX_AHEAD: Final = 4  # A fifth consumer of a partition waits for its producer, and not the other way round.
# After so many that left at once one turn is tried: a try with a single connection is that one question more.
TRY_EVERY: Final = 64
_CLOSED: Final = Serving.CLOSED


class Sender(Protocol):
    """What a connection is to this module."""

    state: Serving

    def write(self, answer: Buffer, /) -> None: ...


class GatheredAnswers:
    """Those of all connections of a node."""

    __slots__ = ("_ahead", "_alone", "_answers", "_ends", "_loop", "_sent")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._answers: list[tuple[Sender, Buffer]] = []
        self._sent = 0  # of this turn's
        self._ends = 0  # calls of `_end_turn` to come: the last one ends the turn
        self._ahead = 0  # of those left before what is kept
        self._alone = TRY_EVERY  # so many more leave at once

    def news(self) -> None:
        """Somebody who waited will be answered: until then answers to others are kept.

        That is a callback of the loop, and known to it already: the turn ends behind it.
        """
        self._end_turn_soon()

    def send_awaited(self, sender: Sender, answer: Buffer) -> None:
        """Send an answer that had to wait: before those that had not, or with them where a turn has many."""
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
        """Send an answer, now or soon."""
        if self._alone and not self._ends:  # else many come in a turn, or somebody who waited is first
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
        """Let go what was kept; nothing goes to connections that were closed meanwhile."""
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
