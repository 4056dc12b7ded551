"""Denials under faults: none is lost, and each is enforced everywhere for commands sent after its answer.

An administrator denies all clients to alter the configs of one group after the other, by any broker, and then
tries to alter them by any broker. A group need not exist to have configs. Each group is denied once, so an
answered denial holds for ever; a group whose denial was not answered is not used.

Records are different: a leader that is cut off from the quorum uses its old ACLs until its session has
expired. The scenario checks that no leader serves a client by old ACLs for longer.
"""

import asyncio
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from ottla.metadata_raft.acl_set import AuthorizerSettings, ClientIdentity
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.node.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from ottla.node.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.node.wire.messages.produce import ProduceResponse
from tests.simulation.sim_client import (
    LAST_VERSION_WITH_NAMES,
    SimClient,
    base_offset_of,
    check,
    pause,
    produce_request,
)
from tests.simulation.simulation import Simulation
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.workload import Workload

SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Simulated clients do not authenticate: they may do all that is not denied.
    "allow.everyone.if.no.acl.found": "true",
}
AUTHORIZER_SETTINGS: Final = AuthorizerSettings(allow_everyone_if_no_acl_found=True)
PRINCIPAL: Final = "User:ANONYMOUS"
SECONDS: Final = 6.0
ATTEMPTS: Final = 3  # to any broker for each group, one after the other
# Without pauses: a process that was paused for long answers the requests in its sockets before it reads its
# clock.
CUTS: Final = ("kill", "isolate", "split", "cut_one_way", "slow_link", "reset", "stop")
CUT_SECONDS: Final = 8.0
CUT_NODES: Final = 4  # isolated one after the other
CLIENTS: Final = 4
SLACK_S: Final = 1.0  # until a node knows that its session has expired, and for requests under way
REPEAT_CHANCE: Final = 0.3  # the probability of another attempt at an earlier group


class Denials:
    """An administrator that creates denials and tests them."""

    def __init__(self, workload: Workload) -> None:
        self.confirmed: list[str] = []  # groups whose denial was answered with success
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
                self._workload.check_error(error)
                await pause(self._chance)
                continue
            self.confirmed.append(group)
            for _ in range(ATTEMPTS):
                await self._try(group)
            if self._chance.random() < REPEAT_CHANCE:
                await self._try(self._chance.choice(self.confirmed))
            await self._workload.rest(0.05)
        self._client.close()

    async def _try(self, group: str) -> None:
        try:
            await _change(self._client, group)
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_AUTHORIZATION_FAILED:
                self._workload.check_error(error)
            return
        raise SimulationError(f"the configs of {group} were altered after a denial")


async def _deny(client: SimClient, group: str) -> None:
    creation = AclCreation(
        resource_type=ResourceType.GROUP,
        resource_name=group,
        resource_pattern_type=PatternType.LITERAL,
        principal=PRINCIPAL,
        host="*",
        operation=AclOperation.ALTER_CONFIGS,
        permission_type=AclPermissionType.DENY,
    )
    request = CreateAclsRequest(creations=[creation])
    response = await client.ask(client.any_endpoint(), request, CreateAclsResponse)
    check(response.results[0].error_code, response.results[0].error_message)


async def _change(client: SimClient, group: str) -> None:
    change = AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value="50000")
    resource = AlterConfigsResource(
        resource_type=ConfigResourceType.GROUP, resource_name=group, configs=[change]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = await client.ask(client.any_endpoint(), request, IncrementalAlterConfigsResponse)
    check(response.responses[0].error_code, response.responses[0].error_message)


async def denials_hold_under_faults(simulation: Simulation) -> None:
    """Nodes and connections fail meanwhile; at the end all nodes must have all denials."""
    denials = Denials(simulation.workload)
    await simulation.nemesis.run(SECONDS)
    await simulation.nemesis.heal()
    simulation.workload.is_calm = True
    await simulation.wait_until_recovered()
    await asyncio.sleep(1)
    await simulation.workload.finish(limit_s=30)

    assert denials.confirmed
    client = ClientIdentity(PRINCIPAL, "10.0.0.1")
    for node in simulation.world.nodes:
        assert node.broker is not None
        image = node.broker.quorum_services.image
        for group in denials.confirmed:
            decision = image.acls.decide(
                client, AclOperation.ALTER_CONFIGS, ResourceType.GROUP, group, AUTHORIZER_SETTINGS
            )
            if decision.is_allowed:
                raise SimulationError(f"node {node.host.name} has lost the denial for {group}")
            if image.configs.of(ConfigResourceType.GROUP, group):
                raise SimulationError(f"the configs of {group} were altered in spite of a denial")


# ---- records -----------------------------------------------------------------------------------------------


class TopicDenial:
    """An administrator that denies all clients to write and read a topic, and then allows it again."""

    def __init__(self, simulation: Simulation, topic: str) -> None:
        session_s = int(simulation.settings["broker.session.timeout.ms"]) / 1_000
        self.limit_s = session_s + SLACK_S
        self.since_s: float | None = None  # when the denial was answered, until its removal is sent
        self._workload, self._topic = simulation.workload, topic
        self._client, self._chance, process = simulation.workload.client("ban")
        simulation.workload.spawn(process, self._run())

    def is_broken_by(self, since_s: float | None, sent_s: float) -> bool:
        """Return True if the denial held from `since_s` on, too long for a request of this time to succeed.

        A late removal of the previous denial may have removed this one.
        """
        if since_s is None or since_s != self.since_s or sent_s <= since_s + self.limit_s:
            return False
        images = [
            node.broker.quorum_services.image
            for node in self._workload.world.nodes
            if node.broker is not None and node.broker.quorum_services is not None
        ]
        return len(max(images, key=lambda image: image.version).acls) > 0

    async def _run(self) -> None:
        while not self._workload.stopping:
            try:
                await self._deny_topic()
                self.since_s = self._workload.world.loop.now_s
                await asyncio.sleep(self.limit_s + 3 * self._chance.random())
            except KafkaError as error:  # it may have taken effect
                self._workload.check_error(error)
            self.since_s = None
            while not await self._remove_denials():
                await pause(self._chance)
            await self._workload.rest(0.5)
        self._client.close()

    async def _deny_topic(self) -> None:
        denials = [
            AclCreation(
                resource_type=ResourceType.TOPIC,
                resource_name=self._topic,
                resource_pattern_type=PatternType.LITERAL,
                principal=PRINCIPAL,
                host="*",
                operation=operation,
                permission_type=AclPermissionType.DENY,
            )
            for operation in (AclOperation.READ, AclOperation.WRITE)
        ]
        request = CreateAclsRequest(creations=denials)
        response = await self._client.ask(self._client.any_endpoint(), request, CreateAclsResponse)
        for one in response.results:
            check(one.error_code, one.error_message)

    async def _remove_denials(self) -> bool:
        all_of_topic = DeleteAclsFilter(
            resource_type_filter=ResourceType.TOPIC,
            resource_name_filter=self._topic,
            pattern_type_filter=PatternType.LITERAL,
            principal_filter=None,
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=AclPermissionType.ANY,
        )
        request = DeleteAclsRequest(filters=[all_of_topic])
        try:
            response = await self._client.ask(self._client.any_endpoint(), request, DeleteAclsResponse)
            check(response.filter_results[0].error_code, response.filter_results[0].error_message)
        except KafkaError as error:
            self._workload.check_error(error)
            return False
        return True


class DeniedClient:
    """A client that produces to and fetches from any node, whichever leads."""

    def __init__(self, simulation: Simulation, denial: TopicDenial, name: str) -> None:
        self.served = self.denied = 0
        self._simulation, self._denial = simulation, denial
        self._client, self._chance, process = simulation.workload.client(name)
        simulation.workload.spawn(process, self._run())

    async def _run(self) -> None:
        workload, denial = self._simulation.workload, self._denial
        while not workload.stopping:
            since_s, sent_s = denial.since_s, workload.world.loop.now_s
            writes = self._chance.random() < 0.5
            try:
                await self._ask(self._client.any_endpoint(), writes=writes)
            except KafkaError as error:
                self.denied += error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
                workload.check_error(error)
            else:
                self.served += 1
                if denial.is_broken_by(since_s, sent_s):
                    verb = "written" if writes else "read"
                    raise SimulationError(
                        f"a record was {verb} {sent_s - (since_s or 0):.1f} s after a denial"
                    )
            await pause(self._chance, 0.05)
        self._client.close()

    async def _ask(self, endpoint: tuple[str, int], *, writes: bool) -> None:
        partition = self._chance.choice(self._simulation.partitions)
        if not writes:
            await self._client.fetch(partition, 0, max_wait_ms=10, endpoint=endpoint)
            return
        now_ms = round(self._simulation.world.loop.now_s * 1_000)
        request = produce_request(partition, [b"x"], now_ms=now_ms, producer=(-1, -1), base_sequence=-1)
        answer = await self._client.ask(
            endpoint, request, ProduceResponse, max_version=LAST_VERSION_WITH_NAMES
        )
        base_offset_of(answer)


async def no_client_is_served_by_old_acls_for_long(simulation: Simulation) -> None:
    """Nodes and connections fail; then each node is cut off from others for long, but not from clients."""
    denial = TopicDenial(simulation, simulation.partitions[0].topic)
    simulation.partitions = [
        one for one in simulation.partitions if one.topic == simulation.partitions[0].topic
    ]
    clients = [DeniedClient(simulation, denial, f"asker-{number}") for number in range(CLIENTS)]
    await simulation.nemesis.run(CUT_SECONDS)
    await simulation.nemesis.heal()
    await simulation.wait_until_recovered()
    network, hosts = simulation.world.network, [one.host for one in simulation.world.nodes]
    for number in range(CUT_NODES):
        one = hosts[number % len(hosts)]
        others = [other for other in hosts if other is not one]
        network.isolate(one, others)
        await asyncio.sleep(2 * denial.limit_s)
        network.rejoin(one, others)
        await simulation.wait_until_recovered()
    simulation.workload.is_calm = True
    await simulation.workload.finish(limit_s=60)

    assert sum(one.served for one in clients) and sum(one.denied for one in clients)
