"""The broker: one node with all its parts, the order in which they start, and how they stop.

Start: the node binds its sockets and looks for a voter that knows the metadata. It locks its log directories,
claims them for the cluster, and replays the metadata log. Peers may connect now, clients not yet. The broker
registers, which also proves that its metadata has caught up, and opens its logs while heartbeats renew its
session. Once it is unfenced, it applies the metadata to its partitions, and only then serves clients.

Stop: other brokers take over the partitions that this node leads. New connections are rejected, waiting
requests are answered, and the logs are flushed and closed with the marker of a clean shutdown. A part that
fails ends the node.
"""

import asyncio
import logging
import sys
from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.logstore import record_walk
from ottla.logstore.log_config import VALIDATE_RECORDS
from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import MetadataImage
from ottla.node.metadata.metadata_publisher import MetadataPublisher, dynamic_config
from ottla.node.net.gathered_answers import GatheredAnswers
from ottla.node.net.listener import Listener
from ottla.node.node_view import NodeView
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.rest_api.node_pulse import NodePulse
from ottla.node.rest_api.probe_server import ProbeServer
from ottla.node.rest_api.read_status import state_of
from ottla.node.rest_api.readiness import STILL_STARTING, problem_of
from ottla.node.rest_api.server_thread import RestServer
from ottla.node.services import QuorumServices, Services
from ottla.node.settings.authorization_settings import ignored_acls_sentence
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.exposed_listeners import open_way_warnings
from ottla.node.start.balance import make_balancer
from ottla.node.start.foundation import make_foundation, open_audit_log
from ottla.node.start.history import keep_history
from ottla.node.start.log_dirs import claim_directories, load_logs, log_notes
from ottla.node.start.metadata import all_changes, make_metadata, run_metadata
from ottla.node.start.node_tasks import cause_of, in_thread_to_the_end
from ottla.node.start.quorum import OpenQuorum, find_quorum, join_quorum, open_quorum
from ottla.node.start.replicas import make_replicas
from ottla.node.start.secured_mark import refuse_to_open
from ottla.node.start.services import apply_settings, make_services
from ottla.node.start.sockets import (
    bind_listeners,
    listeners_for_nodes,
    registered_listeners,
    rest_doors,
    rest_token_verifier,
    stop_accepting,
)
from ottla.node.start.world import World

# If the start takes longer, the REST API starts first: it reports that the node waits for a quorum, or
# recovers its logs.
REST_START_DELAY_S: Final = 2.0
STILL_STARTING_S: Final = 10.0  # between the log lines that say what a starting node waits for
STOP_GRACE_SECONDS: Final = 5.0  # for responses that are still in the sockets when the node stops

log = logging.getLogger(__name__)


class Broker:
    """One node. Call `start` and `stop` in the same task: it owns the node's tasks."""

    def __init__(self, config: BrokerConfig, world: World | None = None) -> None:
        self.base = base = make_foundation(config, World() if world is None else world)
        self.listeners: list[Listener] = []
        self.view = NodeView(
            base.state, base.tasks.start, self.listeners, base.listener_tls, rest_doors(base)
        )
        self.rest = RestServer(self.view, base.memory, base.memory_uses, base.world.rest_loop)
        self.probes = ProbeServer(self.view, NodePulse(base.state), base.world.rest_loop)
        self._skips_hand_over = False  # it stops without waiting until others have taken over
        self._start_log_timer: asyncio.TimerHandle | None = None

    @property
    def config(self) -> BrokerConfig:
        """The current settings."""
        return self.base.config

    @property
    def quorum_services(self) -> QuorumServices | None:
        """The parts that serve peers; None while the node looks for the metadata quorum."""
        return self.view.quorum_services

    @property
    def services(self) -> Services:
        """The parts that serve clients; read them only once the logs are open."""
        return self.view.services

    # ---- start -----------------------------------------------------------------------------------

    async def start(self, *, when_loaded: Callable[[], None] = lambda: None) -> None:
        """Start the node, and return once clients may connect.

        `when_loaded` is called when most long-lived objects exist, and before leaders wait for this node to
        acknowledge records.

        Raises KafkaError with one sentence if the configuration or a log directory forbids the start, and
        OSError if an address is in use.
        """
        base, loop = self.base, asyncio.get_running_loop()
        refuse_to_open(base.config, base.log_manager.disk)  # before any client can connect
        base.state.contact.begin(loop.time(), base.world.clock.now_ms())
        for warning in (*base.config.warnings, *open_way_warnings(base.config)):
            log.warning("%s", warning)
        if base.config.values.get(VALIDATE_RECORDS, True) and not record_walk.IS_COMPILED:
            log.info("%s", record_walk.NOT_COMPILED)
        gathered = GatheredAnswers(loop)
        self.listeners += await bind_listeners(base, gathered)
        try:
            self.view.set_token_verifier(await rest_token_verifier(base))
            self.rest.bind()
            self.probes.bind()
        except BaseException:  # a port is in use, or the start is cancelled
            stop_accepting(self.listeners)
            self.rest.close_sockets()
            raise
        self.probes.start()
        start_timer = loop.call_later(REST_START_DELAY_S, self.rest.start)
        self._log_start_problem()
        try:
            await self._start_parts(gathered, when_loaded)
        except BaseException as error:
            await self._abandon_start(error)
            raise
        finally:
            start_timer.cancel()
            self._stop_start_log()
        base.state.is_serving = base.state.has_started = True
        self.rest.start()
        if self.rest.addresses:  # only the REST API shows charts
            base.tasks.start(keep_history(self.services))

    async def _start_parts(self, gathered: GatheredAnswers, when_loaded: Callable[[], None]) -> None:
        """Start all parts in their order, once the sockets are bound, until clients are served."""
        base, tasks = self.base, self.base.tasks
        await in_thread_to_the_end(partial(open_audit_log, base))
        found = await find_quorum(base)
        await in_thread_to_the_end(partial(claim_directories, base, found))
        await tasks.begin()
        for work in base.background_work:
            tasks.start(work())
        endpoint = registered_listeners(base.config, self.listeners)[base.config.inter_broker_listener_name]
        opened = await in_thread_to_the_end(partial(open_quorum, base, found, endpoint))
        quorum = await self._register(opened)
        replicas = make_replicas(base, quorum, gathered)
        config = dynamic_config(base.config, quorum.image)
        apply_settings(config, base, quorum, replicas)
        await in_thread_to_the_end(partial(load_logs, base, quorum.image))
        services = make_services(base, quorum, replicas, self.listeners)
        self.view.serves_clients(services)
        # Slow work on the loop comes first: once the node is unfenced, leaders wait for its acknowledgements.
        base.dispatcher.load(services)
        when_loaded()
        # No client is served yet, so the broker may report that it is ready before its partitions lead.
        quorum.lifecycle.request_unfencing()
        await quorum.lifecycle.until_unfenced()
        self._follow_metadata(config, quorum, replicas, services)
        await quorum.assignments.report()
        log_notes(base.log_manager)
        services.groups.start(tasks.start)
        services.share_states.start(tasks.start)
        services.share_persister.start(tasks.start)
        services.txn_gate.start(tasks.start)
        services.txns.start(tasks.start)
        tasks.start(replicas.carry_out_the_rest())
        tasks.start(services.replication.run())
        tasks.start(base.listener_tls.run())
        tasks.start(quorum.assignments.run())
        tasks.start(make_balancer(base, quorum).run())
        tasks.start(services.maintenance.run())
        for_nodes = listeners_for_nodes(base.config, self.listeners)
        for listener in self.listeners:
            if listener not in for_nodes:
                await listener.start()
        base.dispatcher.serve_clients()

    async def _register(self, opened: OpenQuorum) -> QuorumServices:
        """Join the open quorum, serve peers, and register the broker."""
        base, tasks = self.base, self.base.tasks
        base.addresses.ask(opened.quorum)
        quorum = make_metadata(base, opened, self.listeners)
        base.dispatcher.serve_peers(quorum)
        self.view.serves_peers(quorum)
        tasks.start_background(run_metadata(base.config, quorum.metadata))
        if opened.asks_to_join:
            tasks.start(join_quorum(base, quorum.metadata))
        # Peers need this node's metadata before it serves clients, and it needs theirs to start.
        for listener in listeners_for_nodes(base.config, self.listeners):
            await listener.start()
        await quorum.lifecycle.register()
        base.dispatcher.serve_logins_of_peers()
        tasks.start(quorum.lifecycle.run())
        return quorum

    def _follow_metadata(
        self, config: BrokerConfig, quorum: QuorumServices, replicas: ReplicaManager, services: Services
    ) -> None:
        """Apply the metadata to partitions, settings and coordinators, now and at each change."""
        base = self.base

        def update_others(image: MetadataImage, changes: MetadataChanges) -> None:
            log_notes(base.log_manager)
            services.update_coordinators(image, changes)
            if changes.client_quotas:
                base.dispatcher.quotas.follow(image.client_quotas, changes.client_quotas)
                base.connection_quota.rates.follow(image.client_quotas, changes.client_quotas)
            if any(broker_id != config.node_id for broker_id in changes.brokers):
                quorum.lifecycle.heartbeat_now()

        publish = MetadataPublisher(
            config=config,
            replicas=replicas,
            set_config=lambda changed: apply_settings(changed, base, quorum, replicas),
            others=update_others,
        )
        publish(quorum.image, all_changes(quorum.image))
        if config.authorizer is None and len(quorum.image.acls):
            log.warning("%s", ignored_acls_sentence(len(quorum.image.acls)))
        quorum.metadata.add_listener(publish)

    def _log_start_problem(self) -> None:
        """Log why the node does not serve clients yet, and repeat that until it does."""
        if self._start_log_timer is not None:
            problem = problem_of(state_of(self.view), has_caught_up=False)
            log.warning("%s%s", STILL_STARTING, problem or "It is opening its listeners.")
        self._start_log_timer = asyncio.get_running_loop().call_later(
            STILL_STARTING_S, self._log_start_problem
        )

    def _stop_start_log(self) -> None:
        if self._start_log_timer is not None:
            self._start_log_timer.cancel()

    async def _abandon_start(self, error: BaseException) -> None:
        """Release what the start has opened. If a part failed and so cancelled the start, raise its error."""
        for listener in self.listeners:
            listener.stop_accepting()
            listener.abort_connections()
        await self.rest.stop()
        self.base.peers.close()
        self.base.handshakes.close()
        try:
            if self.base.tasks.are_open:
                self.base.tasks.abandon()
                await self.base.tasks.end()
        except BaseExceptionGroup as group:
            if isinstance(error, asyncio.CancelledError):
                raise cause_of(group) from None
        finally:
            self.base.log_manager.release()
            await self._close_audit()
            await self.probes.stop()

    async def _close_audit(self) -> None:
        """Write the rest of the audit log, unless this coroutine was closed and cannot wait any more."""
        if not isinstance(sys.exception(), GeneratorExit):
            await asyncio.to_thread(self.base.audit.close)

    # ---- stop ------------------------------------------------------------------------------------

    async def stop(self, *, hands_over: bool = True) -> None:
        """Answer waiting requests, flush and close the logs, and leave the marker of a clean shutdown.

        `hands_over` is false when a whole cluster stops, and no broker is left to take over partitions.
        Raises the error of a part whose failure ended the node.
        """
        base, quorum = self.base, self.quorum_services
        if not base.tasks.are_open or quorum is None:
            return
        services = self.services
        base.state.is_serving = False
        if hands_over:
            await self.hand_over()
        await self.rest.stop()
        stop_accepting(self.listeners)
        services.close()
        if quorum.metadata_feed is not None:
            quorum.metadata_feed.close()
        await self._close_connections()
        quorum.lifecycle.stop()
        base.peers.close()
        base.handshakes.close()
        quorum.metadata.close()
        failure: BaseException | None = None
        try:
            await base.tasks.end()
        except BaseException as error:
            failure = error
        broker_epoch = quorum.metadata.broker_epoch
        try:
            await asyncio.to_thread(base.log_manager.close, broker_epoch=broker_epoch)
        finally:
            await asyncio.to_thread(base.audit.close)
            await self.probes.stop()
        log_notes(base.log_manager)
        if failure is not None:
            raise failure

    async def hand_over(self) -> None:
        """Let other brokers take over the partitions that this node leads while it still serves.

        So no request fails. Afterwards the node leads no partition, and should be stopped.
        """
        quorum, config = self.quorum_services, self.config
        assert quorum is not None, "the node has not started yet"
        others = [one for one in quorum.image.active_brokers() if one.broker_id != config.node_id]
        may_wait = config.controlled_shutdown_enable and not self._skips_hand_over
        if others and may_wait and sys.exc_info()[0] is None:
            await quorum.lifecycle.shut_down(gives_up=lambda: self._skips_hand_over)
            if quorum.quorum.is_leader:
                quorum.quorum.hand_over()

    def skip_hand_over(self) -> None:
        """Make the node stop without waiting until others have taken over the partitions that it leads."""
        self._skips_hand_over = True

    async def _close_connections(self) -> None:
        await asyncio.sleep(0)  # Callbacks write the responses to the requests that waited.
        for listener in self.listeners:
            listener.close_connections()
        deadline = asyncio.get_running_loop().time() + STOP_GRACE_SECONDS
        while any(listener.connections for listener in self.listeners):
            if asyncio.get_running_loop().time() > deadline:
                for listener in self.listeners:
                    listener.abort_connections()
                break
            await asyncio.sleep(0.01)

    async def abandon(self) -> None:
        """End as if killed: nothing is handed over, flushed or marked, and connections are aborted."""
        self.base.state.is_serving = False
        for listener in self.listeners:
            listener.stop_accepting()
            listener.abort_connections()
        await self.rest.stop()
        self.base.peers.close()
        self.base.handshakes.close()
        self.base.tasks.abandon()
        try:
            if self.base.tasks.are_open:
                await self.base.tasks.end()
        finally:
            self.base.log_manager.release()
            await self._close_audit()
            await self.probes.stop()
