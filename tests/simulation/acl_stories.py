"""Denials under faults: none is lost, and a command sent after one was answered is refused everywhere.

An administrator denies everybody to change the settings of one group after the other, by any broker, and
asks any broker to change them. Groups have settings without being there. Each group is denied once, so what
is told of it stays true; one whose denial was not answered is left alone.
"""

import asyncio
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from ottla.metadata_raft.acl_set import Asker, AuthorizerSettings
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.node.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.simulation.sim_client import SimClient, check, pause
from tests.simulation.simulation import Simulation
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.workload import Workload

SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Clients of a simulation do not log in: they may do whatever is not denied to them.
    "allow.everyone.if.no.acl.found": "true",
}
JUDGED_BY: Final = AuthorizerSettings(allow_everyone_if_no_acl_found=True)
ROBOT: Final = "User:ANONYMOUS"
SECONDS: Final = 6.0
QUESTIONS: Final = 3  # of each group, one after the other, of any broker
AGAIN: Final = 0.3  # how often a group of before is asked about


class Denials:
    """An administrator that denies, and tries."""

    def __init__(self, workload: Workload) -> None:
        self.told: list[str] = []  # groups whose denial was answered with success
        self._workload = workload
        self._client, self._chance, process = workload.client("denials")
        workload.spawn(process, self._run())

    async def _run(self) -> None:
        number = 0
        while not self._workload.stopping:
            number += 1
            group = f"denied-{number}"
            try:
                await _deny(self._client, group)
            except KafkaError as error:
                self._workload.judge(error)
                await pause(self._chance)
                continue
            self.told.append(group)
            for _ in range(QUESTIONS):
                await self._try(group)
            if self._chance.random() < AGAIN:
                await self._try(self._chance.choice(self.told))
            await self._workload.rest(0.05)
        self._client.close()

    async def _try(self, group: str) -> None:
        try:
            await _change(self._client, group)
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_AUTHORIZATION_FAILED:
                self._workload.judge(error)
            return
        raise SimulationError(f"the settings of {group} were changed after that was denied")


async def _deny(client: SimClient, group: str) -> None:
    denial = AclCreation(
        resource_type=ResourceType.GROUP,
        resource_name=group,
        resource_pattern_type=PatternType.LITERAL,
        principal=ROBOT,
        host="*",
        operation=AclOperation.ALTER_CONFIGS,
        permission_type=AclPermissionType.DENY,
    )
    asked = CreateAclsRequest(creations=[denial])
    response = await client.ask(client.any_endpoint(), asked, CreateAclsResponse)
    check(response.results[0].error_code, response.results[0].error_message)


async def _change(client: SimClient, group: str) -> None:
    change = AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value="50000")
    resource = AlterConfigsResource(
        resource_type=ConfigResourceType.GROUP, resource_name=group, configs=[change]
    )
    asked = IncrementalAlterConfigsRequest(resources=[resource])
    response = await client.ask(client.any_endpoint(), asked, IncrementalAlterConfigsResponse)
    check(response.responses[0].error_code, response.responses[0].error_message)


async def denials_hold_whatever_fails(simulation: Simulation) -> None:
    """Nodes and connections fail meanwhile; at the end all nodes have all denials."""
    denials = Denials(simulation.workload)
    await simulation.nemesis.run(SECONDS)
    await simulation.nemesis.heal()
    simulation.workload.is_calm = True
    await simulation.wait_until_whole()
    await asyncio.sleep(1)
    await simulation.workload.finish(limit_s=30)

    assert denials.told
    robot = Asker(ROBOT, "10.0.0.1")
    for node in simulation.world.nodes:
        assert node.broker is not None
        image = node.broker.quorum_services.image
        for group in denials.told:
            asked = image.acls.decide(robot, AclOperation.ALTER_CONFIGS, ResourceType.GROUP, group, JUDGED_BY)
            if asked.is_allowed:
                raise SimulationError(f"node {node.host.name} has lost the denial for {group}")
        if image.configs.of(ConfigResourceType.GROUP, denials.told[0]):
            raise SimulationError("a setting was changed that nobody may change")
