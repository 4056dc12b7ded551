"""Mutants that remove one protection of separate controllers each; the scenario detects every one."""

from collections.abc import Mapping
from typing import Final

from ottla.metadata_raft.broker_sessions import BrokerSessions
from ottla.metadata_raft.image import MetadataImage
from ottla.node.metadata import metadata_observer
from ottla.node.net import link_door
from tests.simulation.controller_scenarios import OPTIONS, the_active_controller_fails
from tests.simulation.mutants import Mutant, Patch, add_mutant, played

MAX_SEEDS: Final = 10
CONTROLLER_MUTANTS: list[Mutant] = []


controller_mutant = add_mutant(
    CONTROLLER_MUTANTS, played(the_active_controller_fails, OPTIONS), seeds=MAX_SEEDS
)


@controller_mutant
def links_of_voters_are_taken_for_requests(patch: Patch) -> None:
    """They arrive at the port at which a controller serves brokers and tools."""
    patch.setattr(link_door, "begins_link", lambda *_, **__: False)


@controller_mutant
def a_new_controller_grants_no_sessions(patch: Patch) -> None:
    grant_all = BrokerSessions.grant_all

    def grant_none(
        self: BrokerSessions, image: MetadataImage, now_ms: int, lost_at_ms: Mapping[int, int]
    ) -> None:
        grant_all(self, image, now_ms - 3_600_000, lost_at_ms)

    patch.setattr(BrokerSessions, "grant_all", grant_none)


@controller_mutant
def a_broker_waits_long_for_the_metadata_of_a_silent_controller(patch: Patch) -> None:
    """Its heartbeats have other controllers, but it must see what they decide."""
    patch.setattr(metadata_observer, "FETCH_WAIT_MS", 5_000)
    patch.setattr(metadata_observer, "FETCH_TIMEOUT_S", 10.0)
