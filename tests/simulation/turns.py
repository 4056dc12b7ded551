"""Actors: threads of which one runs at a time, until its next request; a seed chooses the next one.

In this way blocking code can be interleaved at each of its requests, and a seed repeats the same order.
"""

import random
import threading
from collections.abc import Callable
from typing import Any, Final

SLEEP_CHANCE: Final = 0.03  # the probability that an actor sleeps after a turn
MAX_SLEEP_TURNS: Final = 200


class Killed(BaseException):
    """The exception that ends a killed actor wherever it is."""


class Actor:
    """A thread of which `result` or `failure` is set once it is done."""

    def __init__(self, name: str, run: Callable[[], Any]) -> None:
        self.name = name
        self.is_killed = False
        self.is_done = False
        self.result: Any = None
        self.failure: Exception | None = None
        self.sleeps_until = 0
        self._run = run
        self._turn, self._back = threading.Lock(), threading.Lock()  # locked while it is not their turn
        self._turn.acquire()
        self._back.acquire()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    def go(self) -> None:
        """Let the actor run until its next request or its end."""
        self._turn.release()
        self._back.acquire()

    def pause(self) -> None:
        """Give the turn back; the actor itself calls this before each request."""
        self._back.release()
        self._turn.acquire()
        if self.is_killed:
            raise Killed

    def _main(self) -> None:
        _current.actor = self
        self._turn.acquire()
        try:
            if not self.is_killed:
                self.result = self._run()
        except Killed:
            pass
        except Exception as error:
            self.failure = error
        self.is_done = True
        self._back.release()


_current = threading.local()


def pause() -> None:
    """Let the calling actor wait for its next turn."""
    _current.actor.pause()


class Turns:
    """The scheduler of all actors."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._turn = 0
        self.actors: list[Actor] = []

    def begin(self, name: str, run: Callable[[], Any]) -> Actor:
        actor = Actor(name, run)
        self.actors.append(actor)
        return actor

    def next(self) -> bool:
        """Give one actor a turn, after which it may sleep for many; return False when all are done."""
        self.actors = [actor for actor in self.actors if not actor.is_done]
        if not self.actors:
            return False
        self._turn += 1
        actor = self.rng.choice([one for one in self.actors if one.sleeps_until <= self._turn] or self.actors)
        actor.sleeps_until = self._turn
        actor.go()
        if self.rng.random() < SLEEP_CHANCE:
            actor.sleeps_until = self._turn + self.rng.randrange(MAX_SLEEP_TURNS)
        return True

    def kill(self, actor: Actor) -> None:
        """End an actor at the request before which it waits."""
        if not actor.is_done:
            actor.is_killed = True
            actor.go()
