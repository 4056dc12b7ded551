"""What the routes of records share in a node: one producer for all, and how many live tails there are."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from node.client.cluster_client import Client
from node.client.record_sender import RecordSender
from node.rest_api.rest_error import RestError

# Each asks the cluster twice a second when nothing happens, and holds a connection to each leader.
MAX_TAILS: Final = 24


class RecordService:
    """`start` and `stop` are called by one task."""

    def __init__(self, client: Client) -> None:
        """`client` is this service's own."""
        self.sender = RecordSender(client)
        self._client = client
        self._tails = 0

    async def start(self) -> None:
        await self.sender.start()

    async def stop(self) -> None:
        await self.sender.stop()
        await self._client.__aexit__(RestError, None, None)  # at once: nobody waits for an answer any more

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
