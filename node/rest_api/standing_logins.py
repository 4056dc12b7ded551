"""Ends work under way for callers whose login is no longer valid, as re-authentication does in Kafka.

A request is authenticated when it arrives; a live tail or a stream of records may then go on for hours. All
such work is registered here and ends with its login: after a logout, when the session or the token expires,
or when the password has changed or the user was removed. All logins are checked every `LOOK_S` seconds.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from ottla.node.rest_api.authentication import SESSION_CHALLENGE, Identity
from ottla.node.rest_api.rest_error import AUTHENTICATION_FAILED, RestError
from ottla.node.work.pause import until_next

LOOK_S: Final = 1.0


def login_ended() -> RestError:
    """Return the error for a request whose login is no longer valid."""
    return RestError(
        401,
        AUTHENTICATION_FAILED,
        "The login of this request has ended; log in again.",
        headers={"WWW-Authenticate": SESSION_CHALLENGE},
    )


class StandingLogins:
    """The callers with work under way, on one loop; the server runs `run` as a task."""

    def __init__(self, still_holds: Callable[[Identity], bool]) -> None:
        self._still_holds = still_holds
        self._under_way: dict[asyncio.Timeout, Identity] = {}

    def __len__(self) -> int:
        """Return the number of pieces of work under way."""
        return len(self._under_way)

    async def run(self) -> None:
        """Check the logins periodically until cancelled."""
        while True:
            await asyncio.sleep(until_next(LOOK_S))
            self.look()

    def look(self) -> None:
        """End the work of callers whose login is no longer valid."""
        now_s = asyncio.get_running_loop().time()
        for scope, identity in self._under_way.items():
            if scope.when() is None and not self._still_holds(identity):
                scope.reschedule(now_s)

    def check(self, identity: Identity) -> None:
        """Raise RestError 401 if the login of a caller is no longer valid."""
        if not self._still_holds(identity):
            raise login_ended()

    @asynccontextmanager
    async def while_it_holds(self, identity: Identity) -> AsyncIterator[None]:
        """Run a block for as long as a login is valid; RestError 401 once it is not."""
        try:
            async with asyncio.timeout(None) as scope:
                self._under_way[scope] = identity
                try:
                    yield
                finally:
                    del self._under_way[scope]
        except TimeoutError:
            if not scope.expired():
                raise  # a time-out within the block
            raise login_ended() from None
