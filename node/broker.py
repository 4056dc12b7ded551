"""The broker: one node, with all of its parts; the order in which it starts, and how it stops.

Start: sockets are bound; a voter is found who tells of the metadata, if there is one; log directories are
locked and claimed for a cluster; the metadata log is read; peers are let in, clients not yet. The broker
registers, which also proves that its metadata have caught up; its logs are opened while heartbeats keep its
registration alive; it is unfenced; what the metadata say is applied to its partitions; and only then are
clients served.

Stop: others take over what this node leads, nobody new is let in, what waits is answered, logs are flushed
and closed with the mark of a clean shutdown. A part that fails ends the node.
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
from ottla.node.settings.authorization_settings import unjudged_acls_sentence
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.exposed_listeners import open_way_warnings
from ottla.node.start.balance import make_balancer
from ottla.node.start.foundation import make_foundation, open_audit_log
from ottla.node.start.history import keep_history
from ottla.node.start.log_dirs import claim_directories, load_logs, log_notes
from ottla.node.start.metadata import everything, make_metadata, run_metadata
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

# A node that waits for a quorum, or reads its logs again, tells so by its REST API meanwhile.
REST_PATIENCE_S: Final = 2.0
STILL_STARTING_S: Final = 10.0  # how often a node that starts says what it waits for
STOP_GRACE_SECONDS: Final = 5.0  # for answers that are still in the sockets when the node stops

log = logging.getLogger(__name__)


class Broker:
    """One node. `start`, use, `stop`; all three in the same task, which owns the node's tasks."""

    def __init__(self, config: BrokerConfig, world: World | None = None) -> None:
        self.base = base = make_foundation(config, World() if world is None else world)
        self.listeners: list[Listener] = []
        self.view = NodeView(
            base.state, base.tasks.start, self.listeners, base.listener_tls, rest_doors(base)
        )
        self.rest = RestServer(self.view, base.memory, base.memory_uses, base.world.rest_loop)
        self.probes = ProbeServer(self.view, NodePulse(base.state), base.world.rest_loop)
        self._is_hurried = False  # it ends without waiting for others to take over
        self._reminder: asyncio.TimerHandle | None = None

    @property
    def config(self) -> BrokerConfig:
        """The settings that are valid now."""
        return self.base.config

    @property
    def quorum_services(self) -> QuorumServices | None:
        """The parts that serve peers; None while the node looks for the metadata quorum."""
        return self.view.quorum_services

    @property
    def services(self) -> Services:
        """The parts that serve clients; ask only once the logs are open."""
        return self.view.services

    # ---- start -----------------------------------------------------------------------------------

    async def start(self, *, when_loaded: Callable[[], None] = lambda: None) -> None:
        """Serve; returns when clients are let in.

        `when_loaded` is called when most of what stays in memory is there and nobody waits for this node yet.

        KafkaError with one sentence if the configuration or a log directory forbids it, OSError if an
        address is taken.
        """
        base, loop = self.base, asyncio.get_running_loop()
        refuse_to_open(base.config, base.log_manager.disk)  # before anybody can connect
        base.state.contact.begin(loop.time(), base.world.clock.now_ms())
        for warning in (*base.config.warnings, *open_way_warnings(base.config)):
            log.warning("%s", warning)
        if base.config.values.get(VALIDATE_RECORDS, True) and not record_walk.IS_COMPILED:
            log.info("%s", record_walk.NOT_COMPILED)
        gathered = GatheredAnswers(loop)
        self.listeners += await bind_listeners(base, gathered)
        try:
            self.view.judges_tokens(await rest_token_verifier(base))
            self.rest.bind()
            self.probes.bind()
        except BaseException:  # a port that is taken, or the start is given up
            stop_accepting(self.listeners)
            self.rest.close_sockets()
            raise
        self.probes.start()
        patience = loop.call_later(REST_PATIENCE_S, self.rest.start)
        self._remind()
        try:
            await self._start_parts(gathered, when_loaded)
        except BaseException as error:
            await self._abandon_start(error)
            raise
        finally:
            patience.cancel()
            self._stop_reminding()
        base.state.is_serving = base.state.has_started = True
        self.rest.start()
        if self.rest.addresses:  # charts are asked for by REST
            base.tasks.start(keep_history(self.services))

    async def _start_parts(self, gathered: GatheredAnswers, when_loaded: Callable[[], None]) -> None:
        """From bound sockets to served clients."""
        base, tasks = self.base, self.base.tasks
        await in_thread_to_the_end(partial(open_audit_log, base))
        found = await find_quorum(base)
        await in_thread_to_the_end(partial(claim_directories, base, found))
        await tasks.begin()
        for work in base.lasting_work:
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
        # From here on leaders wait for what this node acknowledges: what holds up the loop comes before.
        base.dispatcher.load(services)
        when_loaded()
        # Nobody is let in yet, so it may call itself ready before its partitions are told to lead.
        quorum.lifecycle.logs_are_open()
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
        """From an open quorum to a registered broker, which serves peers."""
        base, tasks = self.base, self.base.tasks
        base.addresses.ask(opened.quorum)
        quorum = make_metadata(base, opened, self.listeners)
        base.dispatcher.serve_peers(quorum)
        self.view.serves_peers(quorum)
        tasks.start_lasting(run_metadata(base.config, quorum.metadata))
        if opened.asks_to_join:
            tasks.start(join_quorum(base, quorum.metadata))
        # Peers need what this node knows before it serves clients, and it needs them to start.
        for listener in listeners_for_nodes(base.config, self.listeners):
            await listener.start()
        await quorum.lifecycle.register()
        base.dispatcher.serve_logins_of_peers()
        tasks.start(quorum.lifecycle.run())
        return quorum

    def _follow_metadata(
        self, config: BrokerConfig, quorum: QuorumServices, replicas: ReplicaManager, services: Services
    ) -> None:
        """Have partitions, settings and coordinators be what the metadata say, now and from now on."""
        base = self.base

        def tell_others(image: MetadataImage, changes: MetadataChanges) -> None:
            log_notes(base.log_manager)
            services.tell_coordinators(image, changes)
            if changes.client_quotas:
                base.dispatcher.quotas.follow(image.client_quotas, changes.client_quotas)
                base.connection_quota.rates.follow(image.client_quotas, changes.client_quotas)
            if any(broker_id != config.node_id for broker_id in changes.brokers):
                quorum.lifecycle.report_soon()

        publish = MetadataPublisher(
            config=config,
            replicas=replicas,
            set_config=lambda changed: apply_settings(changed, base, quorum, replicas),
            others=tell_others,
        )
        publish(quorum.image, everything(quorum.image))
        if config.authorizer is None and len(quorum.image.acls):
            log.warning("%s", unjudged_acls_sentence(len(quorum.image.acls)))
        quorum.metadata.add_listener(publish)

    def _remind(self) -> None:
        """Log why the node does not serve yet, again and again."""
        if self._reminder is not None:
            problem = problem_of(state_of(self.view), has_caught_up=False)
            log.warning("%s%s", STILL_STARTING, problem or "Its listeners open.")
        self._reminder = asyncio.get_running_loop().call_later(STILL_STARTING_S, self._remind)

    def _stop_reminding(self) -> None:
        if self._reminder is not None:
            self._reminder.cancel()

    async def _abandon_start(self, error: BaseException) -> None:
        """Raises what a part failed with, where that is why the start was given up."""
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
        """Have what the audit log has left written, unless nobody goes on with this coroutine."""
        if not isinstance(sys.exception(), GeneratorExit):
            await asyncio.to_thread(self.base.audit.close)

    # ---- stop ------------------------------------------------------------------------------------

    async def stop(self, *, hands_over: bool = True) -> None:
        """Answer what waits, flush and close the logs, leave the mark of a clean shutdown.

        Not to hand over what it leads is for the end of a whole cluster, where nobody is left to take it.
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
        """Have others lead what this node leads while it still serves, so that no request fails.

        It leads nothing more then; what is left to do with it is to stop it.
        """
        quorum, config = self.quorum_services, self.config
        assert quorum is not None, "the node has not started yet"
        others = [one for one in quorum.image.active_brokers() if one.broker_id != config.node_id]
        may_wait = config.controlled_shutdown_enable and not self._is_hurried
        if others and may_wait and sys.exc_info()[0] is None:
            await quorum.lifecycle.shut_down(gives_up=lambda: self._is_hurried)
            if quorum.quorum.is_leader:
                quorum.quorum.hand_over()

    def hurry(self) -> None:
        """Have the node end without waiting for others to take over what it leads."""
        self._is_hurried = True

    async def _close_connections(self) -> None:
        await asyncio.sleep(0)  # The answers to those that waited are written by their callbacks.
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
        """End as a kill would: nothing is handed over, flushed or marked, and peers see connections break."""
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
