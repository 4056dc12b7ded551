"""The environment of a node; a simulation passes in its own."""

import asyncio
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import uvloop

from ottla.logstore.disk import Disk, OsDisk
from ottla.metadata_raft.cluster_features import SUPPORTED_FEATURES
from ottla.node.clock import Clock, SystemClock
from ottla.node.kafka_api.served_apis import Served

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The wall clock, the files, the random numbers and the loops of a node's threads, and its release.

    Elapsed time, sockets and threads come from the running loop; quotas of clients use the system's clock.
    `served_apis` (None: by the settings) and `supported_features` belong to the release.
    """

    clock: Clock = field(default_factory=SystemClock)
    disk: Disk = field(default_factory=OsDisk)
    chance: random.Random = field(default_factory=random.SystemRandom)  # for session ids and pauses
    unique: Callable[[int], bytes] = os.urandom  # n unpredictable bytes
    voter_loop: LoopFactory = asyncio.SelectorEventLoop
    rest_loop: LoopFactory = uvloop.new_event_loop
    served_apis: Served | None = None
    supported_features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: SUPPORTED_FEATURES)

    @property
    def has_os_disk(self) -> bool:
        """Return True if the files are the operating system's, so that threads and locks can be used."""
        return isinstance(self.disk, OsDisk)
