"""What the routes of records share in a node: one producer for all, and how many live tails there are."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from node.client.cluster_client import Client
from node.client.record_sender import RecordSender
from node.rest_api.rest_error import RestError

# Each asks the cluster twice a second when nothing happens, and holds a connection to each leader.
MAX_TAILS: Final = 24

log = logging.getLogger(__name__)


class RecordService:
    """`run` is a task of whoever serves the routes."""

    def __init__(self, make_client: Callable[[], Client]) -> None:
        self.sender = RecordSender(make_client())
        self._make_client = make_client
        self._tails = 0

    async def run(self) -> None:
        """Send until cancelled.

        A sender that fails has a bug, so nothing of what it knew is believed any more: who waits is told, and
        another one begins, under producer ids of its own.
        """
        while True:
            try:
                await self.sender.run()
            except Exception:
                log.exception("The producer of the REST API failed, and begins anew")
                self.sender = RecordSender(self._make_client())

    def check_tails(self) -> None:
        """RestError 429 if there is no place for another live tail."""
        if self._tails >= MAX_TAILS:
            raise RestError(429, 429, f"This node has {MAX_TAILS} live tails already.")

    @contextmanager
    def tail(self) -> Iterator[None]:
        """A place for a live tail; RestError 429."""
        self.check_tails()
        self._tails += 1
        try:
            yield
        finally:
            self._tails -= 1
