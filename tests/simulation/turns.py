"""Actors that take turns: threads of which one runs at a time, until its next request; a seed says which.

So code that blocks can be interleaved at each of its requests, the same way every time.
"""

import random
import threading
from collections.abc import Callable
from typing import Any, Final

SLEEPS: Final = 0.03
LONGEST_SLEEP: Final = 200  # turns


class Killed(BaseException):
    """An actor's end in the middle of whatever it does."""


class Actor:
    """One thread of control; `result` or `failure` is there once it is done."""

    def __init__(self, name: str, run: Callable[[], Any]) -> None:
        self.name = name
        self.is_killed = False
        self.is_done = False
        self.result: Any = None
        self.failure: Exception | None = None
        self.sleeps_until = 0
        self._run = run
        self._turn, self._back = threading.Lock(), threading.Lock()  # held until it is their turn
        self._turn.acquire()
        self._back.acquire()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    def go(self) -> None:
        """Let it run to its next request, or to its end."""
        self._turn.release()
        self._back.acquire()

    def pause(self) -> None:
        """Called by the actor itself, before each request."""
        self._back.release()
        self._turn.acquire()
        if self.is_killed:
            raise Killed

    def _main(self) -> None:
        _here.actor = self
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


_here = threading.local()


def pause() -> None:
    """The actor that calls this waits for its next turn."""
    _here.actor.pause()


class Turns:
    """All actors, and whose turn it is."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._turn = 0
        self.actors: list[Actor] = []

    def begin(self, name: str, run: Callable[[], Any]) -> Actor:
        actor = Actor(name, run)
        self.actors.append(actor)
        return actor

    def next(self) -> bool:
        """One turn of one actor; False when all are done. Now and then one sleeps for many turns."""
        self.actors = [actor for actor in self.actors if not actor.is_done]
        if not self.actors:
            return False
        self._turn += 1
        actor = self.rng.choice([one for one in self.actors if one.sleeps_until <= self._turn] or self.actors)
        actor.sleeps_until = self._turn
        actor.go()
        if self.rng.random() < SLEEPS:
            actor.sleeps_until = self._turn + self.rng.randrange(LONGEST_SLEEP)
        return True

    def kill(self, actor: Actor) -> None:
        """It goes no further than it is."""
        if not actor.is_done:
            actor.is_killed = True
            actor.go()
