"""Makes the metadata of a node, the registration of its broker, and the listeners for changes of metadata."""

from collections.abc import Sequence

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import CreateTopics, NewTopic
from ottla.metadata_raft.delta import ChangedTopic, MetadataChanges
from ottla.metadata_raft.image import Endpoint, MetadataImage
from ottla.node.counters.election_counters import ElectionCounters
from ottla.node.metadata.assignments_manager import AssignmentsManager
from ottla.node.metadata.broker_lifecycle import BrokerLifecycle, Registration
from ottla.node.metadata.command_sender import CommandSender
from ottla.node.metadata.controller_lifecycle import ControllerLifecycle
from ottla.node.metadata.encoded_answers import EncodedAnswers
from ottla.node.metadata.metadata_feed import MetadataFeed
from ottla.node.metadata.metadata_publisher import controller_config
from ottla.node.metadata.metadata_runtime import MetadataRuntime
from ottla.node.metadata.producer_ids import ProducerIds
from ottla.node.net.listener import Listener
from ottla.node.services import QuorumServices
from ottla.node.settings.config import BrokerConfig
from ottla.node.start.foundation import Foundation
from ottla.node.start.node_tasks import cause_of
from ottla.node.start.peer_watch import PeerWatch
from ottla.node.start.quorum import OpenQuorum
from ottla.node.start.sockets import registered_controllers, registered_listeners
from ottla.node.wire.messages.fetch_metadata import VoterAddress


def make_metadata(base: Foundation, opened: OpenQuorum, listeners: Sequence[Listener]) -> QuorumServices:
    """Make the metadata of an open quorum; nothing runs yet."""
    config, world = base.config, base.world
    runtime = MetadataRuntime(
        quorum=opened.quorum,
        image=opened.image,
        config=controller_config(config, base.false_credentials.key),
        clock=world.clock,
        broker_id=config.node_id,
        sender=CommandSender(base.peers.client),
        voters=lambda: _voter_ids(config, runtime.image),
        chance=world.chance,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        is_connected=lambda node_id: _has_peer(listeners, node_id),
        encoded_answers=EncodedAnswers(base.memory.encoded_answers),
        before_image=lambda image: _update_acls(base, image),
        take_mutations=base.dispatcher.quotas.mutations.take,
    )
    base.addresses.follow(lambda: runtime.image)
    _update_acls(base, opened.image)
    registered = registered_listeners(config, listeners)
    feed = None
    if config.is_voter or config.may_vote:
        feed = MetadataFeed(
            opened.image,
            leader=lambda: (runtime.controller_id, runtime.controller_epoch),
            voters=lambda: _voter_addresses(base, runtime.image, registered),
            hears_all=lambda: opened.quorum.hears_all,
        )
        runtime.add_commit_listener(feed.add)
    watch = PeerWatch(
        node_id=config.node_id,
        metadata=runtime,
        peers=base.peers,
        has_peer=lambda node_id: _has_peer(listeners, node_id),
        tasks=base.tasks,
        is_voter=feed is not None,
        controller_changed=lambda: lifecycle.controller_changed(),
    )
    runtime.suspects.probe_by(watch.probe)
    lifecycle: BrokerLifecycle | ControllerLifecycle
    if config.is_broker:
        lifecycle = BrokerLifecycle(
            metadata=runtime,
            registration=_registration(base, registered),
            contact=base.state.contact,
            clock=world.clock,
            heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
            registration_timeout_ms=config.initial_broker_registration_timeout_ms,
            on_cut_off=base.cut_off,
            leader_load=lambda: base.leader_load.bytes_per_second,
            is_quorum_gone=lambda: watch.is_quorum_gone(_voter_ids(config, runtime.image)),
        )
    else:
        lifecycle = ControllerLifecycle(metadata=runtime, contact=base.state.contact, clock=world.clock)

    def cut_off(is_cut_off: bool) -> None:
        base.state.is_cut_off = is_cut_off
        runtime.encoded_answers.clear()  # they name the controller, which is unknown while cut off

    base.cut_off.connect(cut_off)
    elections = ElectionCounters(lambda: runtime.is_controller)
    watch.update_brokers(runtime.image, all_changes(runtime.image))
    runtime.add_listener(watch.update_brokers)
    runtime.add_listener(elections.note)
    runtime.add_controller_listener(lifecycle.controller_changed)
    runtime.add_controller_listener(watch.leader_changed)
    base.peer_lost.connect(watch.peer_lost)
    base.peer_connection_lost.connect(watch.connection_lost)
    base.memory_uses.count("encoded_answers", runtime.encoded_answers)
    return QuorumServices(
        state=base.state,
        served_apis=base.served_apis,
        supported_features=world.supported_features,
        quorum=opened.quorum,
        metadata=runtime,
        metadata_feed=feed,
        lifecycle=lifecycle,
        assignments=AssignmentsManager(runtime, failure_timeout_ms=config.log_dir_failure_timeout_ms),
        producer_ids=ProducerIds(runtime),
        elections=elections,
    )


def _registration(base: Foundation, listeners: dict[str, Endpoint]) -> Registration:
    config, world = base.config, base.world
    return Registration(
        broker_id=config.node_id,
        incarnation_id=world.unique(16),
        listeners=listeners,
        rack=config.broker_rack,
        log_dirs=[one.directory_id for one in base.log_manager.online_dirs if one.directory_id],
        features=world.supported_features,
        previous_broker_epoch=base.log_manager.clean_shutdown_epoch(),
        page_cache_id=base.log_manager.disk.page_cache_id(),
        peer_listener=config.inter_broker_listener_name,
        controllers=registered_controllers(config),
    )


async def run_metadata(config: BrokerConfig, metadata: MetadataRuntime) -> None:
    """Run the quorum; KAFKA_STORAGE_ERROR, in one sentence, if the metadata log cannot be written."""
    try:
        await metadata.run()
    except BaseExceptionGroup as group:
        failed, rest = group.split(OSError)
        if failed is None or rest is not None:
            raise
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"The metadata log in {config.metadata_log_dir} cannot be written, so the node shuts "
            f"down: {cause_of(failed)}.",
        ) from group


async def create_topic(metadata: MetadataRuntime, topic: NewTopic) -> None:
    """Create a topic that the node itself needs; KafkaError if the controller rejects it."""
    reply = await metadata.submit(CreateTopics(topics=[topic]))
    for created in reply.topics:
        if created.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode(created.error_code), created.error_message or "")


def all_changes(image: MetadataImage) -> MetadataChanges:
    """Return the changes from an empty image to this one, without those of settings.

    At start each part is made with the settings of the image already.
    """
    return MetadataChanges(
        topics=tuple(ChangedTopic(None, topic) for topic in image.topics.by_name.values()),
        configs=frozenset(),
        brokers=frozenset(image.brokers),
        features=True,
        acls=bool(image.acls.by_id),
        client_quotas=frozenset(image.client_quotas),
        scram_credentials=frozenset(image.scram_credentials),
    )


def _update_acls(base: Foundation, image: MetadataImage) -> None:
    """Let the authorizer decide by the ACLs of this image."""
    if base.authorizer is not None:
        base.authorizer.update(image.acls)


def _has_peer(listeners: Sequence[Listener], node_id: int) -> bool:
    """Return True if a peer has a connection to this node."""
    return any(listener.has_peer(node_id) for listener in listeners)


def _voter_ids(config: BrokerConfig, image: MetadataImage) -> Sequence[int]:
    if image.voters:
        return [voter.voter_id for voter in image.voters]
    return [voter.node_id for voter in config.controller_quorum_voters]


def _voter_addresses(
    base: Foundation, image: MetadataImage, registered: dict[str, Endpoint]
) -> list[VoterAddress]:
    """Return the addresses at which observers reach the voters."""
    config = base.config
    own = registered[config.inter_broker_listener_name]
    found: list[VoterAddress] = []
    for node_id in _voter_ids(config, image):
        endpoint = own if node_id == config.node_id else base.addresses.endpoint_of(node_id)
        if endpoint is not None:
            found.append(
                VoterAddress(
                    node_id=node_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=endpoint.security_protocol,
                )
            )
    return found
