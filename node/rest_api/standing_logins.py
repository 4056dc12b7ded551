"""Ends what is under way for callers whose login no longer holds, as Kafka does by re-authentication.

A request is judged when it comes; a live tail or a stream of records may then go on for hours. So everything
that waits or flows for a caller asks here to be ended once its login has: after a logout, when the session or
the token is over, when the password was changed or the user removed. All logins are looked at every
`LOOK_S`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from ottla.node.rest_api.authentication import SESSION_CHALLENGE, Identity
from ottla.node.rest_api.rest_error import AUTHENTICATION_FAILED, RestError

LOOK_S: Final = 1.0


def login_ended() -> RestError:
    """Return the error for what was asked for by a login that does not hold any more."""
    return RestError(
        401,
        AUTHENTICATION_FAILED,
        "The login of this request has ended; log in again.",
        headers={"WWW-Authenticate": SESSION_CHALLENGE},
    )


class StandingLogins:
    """The callers for whom something is under way, on one loop; `run` is a task of whoever serves them."""

    def __init__(self, still_holds: Callable[[Identity], bool]) -> None:
        self._still_holds = still_holds
        self._under_way: dict[asyncio.Timeout, Identity] = {}

    def __len__(self) -> int:
        """Return how much is under way."""
        return len(self._under_way)

    async def run(self) -> None:
        """Look at the logins until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """End what is under way for those whose login does not hold now."""
        now_s = asyncio.get_running_loop().time()
        for scope, identity in self._under_way.items():
            if scope.when() is None and not self._still_holds(identity):
                scope.reschedule(now_s)

    def check(self, identity: Identity) -> None:
        """RestError 401 if the login of a caller does not hold now."""
        if not self._still_holds(identity):
            raise login_ended()

    @asynccontextmanager
    async def while_it_holds(self, identity: Identity) -> AsyncIterator[None]:
        """Let a task go on for as long as a login holds; RestError 401 when it does not."""
        try:
            async with asyncio.timeout(None) as scope:
                self._under_way[scope] = identity
                try:
                    yield
                finally:
                    del self._under_way[scope]
        except TimeoutError:
            if not scope.expired():
                raise  # of whatever was done here
            raise login_ended() from None
