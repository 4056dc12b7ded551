"""Each request in each state, against the table that Apache Kafka passes, too."""

import pytest

from ottla.groupcoord.admin_commands import DeleteGroups, DescribeGroups
from ottla.groupcoord.admin_results import DeleteGroupsResult, DescribeGroupsResult
from ottla.groupcoord.classic.member_commands import MemberIdentity
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Refuse, Result
from ottla.groupcoord.offsets.offset_commands import OffsetCommit, OffsetDelete, OffsetToCommit
from ottla.groupcoord.offsets.offset_results import OffsetCommitResult, OffsetDeleteResult
from tests.unit.groupcoord.classic.classic_table import (
    READS,
    REQUESTS,
    STATES,
    TABLE,
    Joined,
    expected,
    found,
)
from tests.unit.groupcoord.group_world import GroupWorld


class CoreDriver:
    """The table's requests as commands of a shard whose clock does not move."""

    def __init__(self) -> None:
        self.world = GroupWorld(CoordinatorConfig(group_initial_rebalance_delay_ms=0))

    def start_join(
        self,
        member_id: str = "",
        *,
        metadata: bytes = READS,
        protocol: str = "range",
        protocol_type: str = "consumer",
        instance: str | None = None,
        member_id_required: bool = False,
    ) -> int:
        token = self.world.join(
            member_id,
            instance=instance,
            protocols=[(protocol, metadata)],
            protocol_type=protocol_type,
            member_id_required=member_id_required,
        )
        self.world.advance(0)
        return token

    def joined(self, join: int) -> Joined:
        answer = self.world.joined(join)
        return Joined(error=answer.error.name, member_id=answer.member_id, generation_id=answer.generation_id)

    def waits(self, request: int) -> bool:
        return request in self.world.waiting()

    def start_sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: dict[str, bytes],
        *,
        protocol: str = "range",
        protocol_type: str = "consumer",
    ) -> int:
        return self.world.sync(
            member_id,
            generation_id,
            list(assignments.items()),
            protocol_type=protocol_type,
            protocol_name=protocol,
        )

    def synced(self, sync: int) -> str:
        answer = self.world.synced(sync)
        return "ok" if answer.assignment else answer.error.name

    def heartbeat(self, member_id: str, generation_id: int) -> str:
        return self.world.heartbeat(member_id, generation_id).name

    def commit(self, member_id: str, generation_id: int) -> str:
        command = OffsetCommit(
            token=self.world.token(),
            group_id="g",
            generation_id=generation_id,
            member_id=member_id,
            offsets=[OffsetToCommit("read", 0, 5)],
        )
        return name_of(self.world.ask(command))

    def leave(self, member_id: str, instance: str | None = None) -> str:
        (error,) = self.world.leave(MemberIdentity(member_id, instance))
        return error.name

    def delete_offset(self, topic: str) -> str:
        command = OffsetDelete(token=self.world.token(), group_id="g", topics=[(topic, [0])])
        return name_of(self.world.ask(command))

    def delete_group(self) -> str:
        return name_of(self.world.ask(DeleteGroups(token=self.world.token(), group_ids=["g"])))

    def reaches(self, state: str) -> None:
        assert self.state() == state

    def state(self) -> str:
        answer = self.world.ask(DescribeGroups(token=self.world.token(), group_ids=["g"]))
        assert isinstance(answer, DescribeGroupsResult)
        return answer.groups[0].state


def name_of(answer: Result | Refuse) -> str:
    """Return the name of the one error in an answer."""
    match answer:
        case Refuse(_, error, _):
            return error.name
        case OffsetCommitResult(errors=[error]):
            return error.name
        case OffsetDeleteResult(topics=[(_, [(_, error)])]):
            return error.name
        case DeleteGroupsResult(errors=[(_, error)]):
            return error.name
    raise AssertionError(answer)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("request_", REQUESTS)
def test_each_request_in_each_state_is_answered_as_the_table_says(request_: str, state: str) -> None:
    assert found(CoreDriver(), request_, state) == expected(request_, state)


def test_the_table_names_every_request() -> None:
    assert TABLE.keys() == REQUESTS.keys()
