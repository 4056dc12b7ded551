"""Every request of a classic group in every state: its answer, and the state of the group after it.

One table for the pure core (test_classic_table) and for a server at the other end of a wire
(tests/compat/traps/test_classic_table, which Apache Kafka passes too). A cell reads `answer` or `answer >
state`, if the request changes the state; `waits` is a request that is not answered yet.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol as Interface

STATES = ("Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
# ConsumerProtocolSubscription version 0 of the topics "read" and "other".
READS = b"\0\0\0\0\0\1\0\4read\xff\xff\xff\xff"
READS_OTHER = b"\0\0\0\0\0\1\0\5other\xff\xff\xff\xff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to a JoinGroup: the name of its error, or NONE."""

    error: str
    member_id: str
    generation_id: int


class Driver(Interface):
    """Sends requests of members to one group and names the answers."""

    def start_join(
        self,
        member_id: str = "",
        *,
        metadata: bytes = READS,
        protocol: str = "range",
        protocol_type: str = "consumer",
        instance: str | None = None,
        member_id_required: bool = False,
    ) -> int: ...

    def joined(self, join: int) -> Joined: ...

    def waits(self, request: int) -> bool: ...

    def start_sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: dict[str, bytes],
        *,
        protocol: str = "range",
        protocol_type: str = "consumer",
    ) -> int: ...

    def synced(self, sync: int) -> str: ...

    def heartbeat(self, member_id: str, generation_id: int) -> str: ...

    def commit(self, member_id: str, generation_id: int) -> str: ...

    def leave(self, member_id: str, instance: str | None = None) -> str: ...

    def delete_offset(self, topic: str) -> str: ...

    def delete_group(self) -> str: ...

    def state(self) -> str: ...

    def reaches(self, state: str) -> None:
        """Assert that the group is in this state, or gets there soon."""


@dataclass(slots=True, kw_only=True)
class Scene:
    """A group of a leader and a follower; in PreparingRebalance the join of a new member waits."""

    driver: Driver
    leader: str
    follower: str
    generation_id: int

    def join(self, member_id: str, **fields: object) -> str:
        """Return `waits`, the error, `joined` for a new generation, or `again` for the present one."""
        join = self.driver.start_join(member_id, **fields)  # type: ignore[arg-type]
        if self.driver.waits(join):
            return "waits"
        answer = self.driver.joined(join)
        if answer.error != "NONE":
            return answer.error
        return "again" if answer.generation_id == self.generation_id else "joined"

    def sync(self, member_id: str, generation_id: int | None = None, **fields: object) -> str:
        stated = self.generation_id if generation_id is None else generation_id
        assignments = {each: each.encode() for each in (self.leader, self.follower)}
        given = assignments if member_id == self.leader else {}
        sync = self.driver.start_sync(member_id, stated, given, **fields)  # type: ignore[arg-type]
        return "waits" if self.driver.waits(sync) else self.driver.synced(sync)

    def pending(self) -> str:
        """Return the id of a member that was given one and has not joined with it yet."""
        return self.driver.joined(self.driver.start_join(member_id_required=True)).member_id


def set_up(driver: Driver, state: str) -> Scene:
    """Return a group in this state."""
    if state == "Dead":
        return Scene(driver=driver, leader="leader", follower="follower", generation_id=7)
    leader = driver.joined(driver.start_join()).member_id
    join = driver.start_join()
    driver.reaches("PreparingRebalance")
    again = driver.joined(driver.start_join(leader))
    follower = driver.joined(join)
    scene = Scene(
        driver=driver, leader=leader, follower=follower.member_id, generation_id=again.generation_id
    )
    if state == "CompletingRebalance":
        return scene
    assignments = {each: each.encode() for each in (leader, scene.follower)}
    for member_id, given in ((leader, assignments), (scene.follower, {})):
        synced = driver.synced(driver.start_sync(member_id, scene.generation_id, given))
        assert synced == "ok", synced
    if state == "PreparingRebalance":
        assert scene.join("") == "waits"
    if state == "Empty":
        assert (driver.leave(leader), driver.leave(scene.follower)) == ("NONE", "NONE")
    driver.reaches(state)
    return scene


REQUESTS: dict[str, Callable[[Scene], str]] = {
    "a new member joins": lambda s: s.join(""),
    "a new member asks for its id": lambda s: s.join("", member_id_required=True),
    "a new static member joins": lambda s: s.join("", instance="one"),
    "a new member of another type joins": lambda s: s.join("", protocol_type="connect"),
    "a new member without a shared protocol joins": lambda s: s.join("", protocol="sticky"),
    "an unknown member joins": lambda s: s.join("unknown"),
    "an unknown member with an unknown instance joins": lambda s: s.join("unknown", instance="nobody"),
    "the follower joins again": lambda s: s.join(s.follower),
    "the follower joins with other metadata": lambda s: s.join(s.follower, metadata=READS_OTHER),
    "the follower joins without a shared protocol": lambda s: s.join(s.follower, protocol="sticky"),
    "the leader joins again": lambda s: s.join(s.leader),
    "a pending member joins": lambda s: s.join(s.pending(), member_id_required=True),
    "the leader syncs": lambda s: s.sync(s.leader),
    "the follower syncs": lambda s: s.sync(s.follower),
    "the follower syncs an older generation": lambda s: s.sync(s.follower, s.generation_id - 1),
    "the follower syncs another protocol": lambda s: s.sync(s.follower, protocol="sticky"),
    "the follower syncs another type": lambda s: s.sync(s.follower, protocol_type="connect"),
    "an unknown member syncs": lambda s: s.sync("unknown"),
    "a pending member syncs": lambda s: s.sync(s.pending()),
    "the follower heartbeats": lambda s: s.driver.heartbeat(s.follower, s.generation_id),
    "the follower heartbeats an older generation": lambda s: s.driver.heartbeat(
        s.follower, s.generation_id - 1
    ),
    "an unknown member heartbeats": lambda s: s.driver.heartbeat("unknown", s.generation_id),
    "a pending member heartbeats": lambda s: s.driver.heartbeat(s.pending(), s.generation_id),
    "the follower commits": lambda s: s.driver.commit(s.follower, s.generation_id),
    "the follower commits for an older generation": lambda s: s.driver.commit(
        s.follower, s.generation_id - 1
    ),
    "an unknown member commits": lambda s: s.driver.commit("unknown", s.generation_id),
    "an outsider commits": lambda s: s.driver.commit("", -1),
    "an unknown member without a generation commits": lambda s: s.driver.commit("unknown", -1),
    "a pending member commits": lambda s: s.driver.commit(s.pending(), -1),
    "the follower leaves": lambda s: s.driver.leave(s.follower),
    "the leader leaves": lambda s: s.driver.leave(s.leader),
    "an unknown member leaves": lambda s: s.driver.leave("unknown"),
    "an unknown instance leaves": lambda s: s.driver.leave("", "nobody"),
    "a pending member leaves": lambda s: s.driver.leave(s.pending()),
    "the offset of a topic that is read is deleted": lambda s: s.driver.delete_offset("read"),
    "the offset of a topic that is not read is deleted": lambda s: s.driver.delete_offset("other"),
    "the group is deleted": lambda s: s.driver.delete_group(),
}

GONE = "UNKNOWN_MEMBER_ID"
OLD = "ILLEGAL_GENERATION"
AGAIN = "REBALANCE_IN_PROGRESS"
OTHER = "INCONSISTENT_GROUP_PROTOCOL"
ID = "MEMBER_ID_REQUIRED"
P, C, S = "PreparingRebalance", "CompletingRebalance", "Stable"

# Request: its answer in Dead (no such group), Empty, PreparingRebalance, CompletingRebalance, Stable.
TABLE: dict[str, tuple[str, str, str, str, str]] = {
    "a new member joins": (f"joined > {C}", f"joined > {C}", "waits", f"waits > {P}", f"waits > {P}"),
    "a new member asks for its id": (f"{ID} > Empty", ID, ID, ID, ID),
    "a new static member joins": (f"joined > {C}", f"joined > {C}", "waits", f"waits > {P}", f"waits > {P}"),
    "a new member of another type joins": (f"joined > {C}", f"joined > {C}", OTHER, OTHER, OTHER),
    "a new member without a shared protocol joins": (f"joined > {C}", f"joined > {C}", OTHER, OTHER, OTHER),
    "an unknown member joins": (GONE, GONE, GONE, GONE, GONE),
    "an unknown member with an unknown instance joins": (GONE, GONE, GONE, GONE, GONE),
    "the follower joins again": (GONE, GONE, "waits", "again", "again"),
    "the follower joins with other metadata": (GONE, GONE, "waits", f"waits > {P}", f"waits > {P}"),
    "the follower joins without a shared protocol": (GONE, GONE, OTHER, OTHER, OTHER),
    "the leader joins again": (GONE, GONE, "waits", "again", f"waits > {P}"),
    "a pending member joins": (f"joined > {C}", f"joined > {C}", "waits", f"waits > {P}", f"waits > {P}"),
    "the leader syncs": (GONE, GONE, AGAIN, f"ok > {S}", "ok"),
    "the follower syncs": (GONE, GONE, AGAIN, "waits", "ok"),
    "the follower syncs an older generation": (GONE, GONE, OLD, OLD, OLD),
    "the follower syncs another protocol": (GONE, GONE, OTHER, OTHER, OTHER),
    "the follower syncs another type": (GONE, GONE, OTHER, OTHER, OTHER),
    "an unknown member syncs": (GONE, GONE, GONE, GONE, GONE),
    "a pending member syncs": (f"{GONE} > Empty", GONE, GONE, GONE, GONE),
    "the follower heartbeats": (GONE, GONE, AGAIN, "NONE", "NONE"),
    "the follower heartbeats an older generation": (GONE, GONE, OLD, OLD, OLD),
    "an unknown member heartbeats": (GONE, GONE, GONE, GONE, GONE),
    "a pending member heartbeats": (f"{GONE} > Empty", GONE, GONE, GONE, GONE),
    "the follower commits": ("GROUP_ID_NOT_FOUND", GONE, "NONE", AGAIN, "NONE"),
    "the follower commits for an older generation": ("GROUP_ID_NOT_FOUND", GONE, OLD, OLD, OLD),
    "an unknown member commits": ("GROUP_ID_NOT_FOUND", GONE, GONE, GONE, GONE),
    "an outsider commits": ("NONE > Empty", "NONE", GONE, GONE, GONE),
    "an unknown member without a generation commits": ("NONE > Empty", "NONE", GONE, GONE, GONE),
    "a pending member commits": ("NONE > Empty", "NONE", GONE, GONE, GONE),
    "the follower leaves": (GONE, GONE, "NONE", f"NONE > {P}", f"NONE > {P}"),
    "the leader leaves": (GONE, GONE, "NONE", f"NONE > {P}", f"NONE > {P}"),
    "an unknown member leaves": (GONE, GONE, GONE, GONE, GONE),
    "an unknown instance leaves": (GONE, GONE, GONE, GONE, GONE),
    # Kafka keeps an empty group until its next check of expired offsets; Ottla removes it at once.
    "a pending member leaves": ("NONE > *", "NONE", "NONE", f"NONE > {P}", f"NONE > {P}"),
    "the offset of a topic that is read is deleted": (
        "GROUP_ID_NOT_FOUND",
        "NONE",
        "GROUP_SUBSCRIBED_TO_TOPIC",
        "GROUP_SUBSCRIBED_TO_TOPIC",
        "GROUP_SUBSCRIBED_TO_TOPIC",
    ),
    "the offset of a topic that is not read is deleted": (
        "GROUP_ID_NOT_FOUND",
        "NONE",
        "NONE",
        "NONE",
        "NONE",
    ),
    "the group is deleted": (
        "GROUP_ID_NOT_FOUND",
        "NONE > Dead",
        "NON_EMPTY_GROUP",
        "NON_EMPTY_GROUP",
        "NON_EMPTY_GROUP",
    ),
}


def expected(request: str, state: str) -> tuple[str, str]:
    """Return the answer and the state after it; `*` for a state that may differ."""
    answer, _, after = TABLE[request][STATES.index(state)].partition(" > ")
    return answer, after or state


def found(driver: Driver, request: str, state: str) -> tuple[str, str]:
    scene = set_up(driver, state)
    answer = REQUESTS[request](scene)
    after = "*" if expected(request, state)[1] == "*" else driver.state()
    return answer, after
