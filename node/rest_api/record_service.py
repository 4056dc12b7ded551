"""What the routes of records share in a node: one producer for all, and places for reading and live tails."""

import logging
from collections.abc import Callable

from ottla.node.client.cluster_client import Client
from ottla.node.client.record_sender import RecordSender
from ottla.node.rest_api.fair_places import FairPlaces
from ottla.node.rest_api.loop_turns import LoopTurns

log = logging.getLogger(__name__)


class RecordService:
    """`run` is a task of whoever serves the routes."""

    def __init__(self, make_client: Callable[[], Client], tails: FairPlaces, reads: FairPlaces) -> None:
        self.sender = RecordSender(make_client())
        self._make_client = make_client
        # A tail asks the cluster twice a second when nothing happens, and holds a connection to each leader.
        self.tails = tails
        self.reads = reads
        self.turns = LoopTurns()  # of both, on the loop

    async def run(self) -> None:
        """Send until cancelled.

        A sender that fails has a bug, so nothing of what it knew is believed any more: who waits is told, and
        another one begins, under producer ids of its own.
        """
        while True:
            try:
                await self.sender.run()
            except Exception:
                log.exception("The producer of the REST API failed and is restarted")
                self.sender = RecordSender(self._make_client())
