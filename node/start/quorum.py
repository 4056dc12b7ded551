"""The node's part in the metadata quorum: a voter opens its log, an observer finds the voters."""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, uuid_to_text
from ottla.metadata_raft.commands import AddRaftVoter, VoterListener
from ottla.metadata_raft.image import METADATA_TOPIC, Endpoint, MetadataImage
from ottla.metadata_raft.quorum import Quorum
from ottla.metadata_raft.quorum_raft import RaftQuorum
from ottla.metadata_raft.raft_core import SnapshotRule
from ottla.metadata_raft.raft_guard import Peer
from ottla.metadata_raft.raft_handshake import NONCE_BYTES, LinkIdentity, LinkLogin
from ottla.metadata_raft.raft_link import LinkListener, LinkSettings, LinkTls, ask_the_quorum
from ottla.metadata_raft.voters import CONTROLLER_LISTENER, Voter, VoterSet
from ottla.node.metadata.member_quorum import MemberQuorum
from ottla.node.metadata.metadata_observer import MetadataObserver
from ottla.node.metadata.metadata_runtime import MetadataRuntime
from ottla.node.security.cluster_key import cluster_key
from ottla.node.settings.cluster_settings import QuorumVoter
from ottla.node.settings.config import BrokerConfig
from ottla.node.start.foundation import Foundation
from ottla.node.start.sockets import registered_controllers
from ottla.node.wire.sasl_mechanisms import PLAIN

ASK_PAUSE_SECONDS: Final = 0.5
# A node that may vote and has a log of its own asks no longer than this.
ASK_WITH_LOG_MS: Final = 3_000
JOIN_PAUSE_SECONDS: Final = 0.5
# Short, so that a node sees that it is a voter already: if it is removed soon, it must not ask again.
FIRST_LOOK_SECONDS: Final = 0.02
_NO_ENDPOINT: Final = Endpoint("", 0)

log = logging.getLogger(__name__)


class FoundQuorum(NamedTuple):
    """The response of a voter to an observer."""

    cluster_id: bytes
    voters: Mapping[int, Endpoint]  # the addresses at which they serve brokers


async def find_quorum(base: Foundation) -> FoundQuorum | None:
    """Ask the configured voters until one answers; return None if this node is one of them.

    None also if a node that may vote and has a log gets no answer for ASK_WITH_LOG_MS. REQUEST_TIMED_OUT
    after `initial.broker.registration.timeout.ms`.
    """
    config = base.config
    if config.is_voter:
        return None
    log_directory = config.metadata_log_dir / f"{METADATA_TOPIC}-0"
    has_log = config.may_vote and await asyncio.to_thread(base.world.disk.exists, log_directory)
    named = [(one.host, one.port) for one in config.controller_quorum_voters]
    addresses = named or list(config.controller_quorum_bootstrap_servers)
    identity = LinkIdentity(ZERO_UUID, Peer(config.node_id, ZERO_UUID), _NO_ENDPOINT)
    settings = LinkSettings(
        identity,
        b"" if config.cluster_secret is None else cluster_key(config.cluster_secret),
        ("", 0),
        _tls(base),
        login=lambda: _login(base),
    )
    loop = asyncio.get_running_loop()
    timeout_ms = config.initial_broker_registration_timeout_ms
    deadline = loop.time() + (min(timeout_ms, ASK_WITH_LOG_MS) if has_log else timeout_ms) / 1000
    problems: dict[tuple[str, int], str] = {}
    while loop.time() < deadline:
        for host, port in addresses:
            try:
                found = await ask_the_quorum(host, port, settings, nonce=base.world.unique(NONCE_BYTES))
                return FoundQuorum(*found)
            except (KafkaError, OSError, TimeoutError) as error:
                if str(error) != problems.get((host, port)):
                    problems[host, port] = str(error)
                    log.warning("The controller at %s:%d does not answer: %s", host, port, error)
        await asyncio.sleep(ASK_PAUSE_SECONDS * (0.5 + base.world.chance.random()))
    if has_log:
        return None  # it may be a voter by now, and be needed to elect the leader that it looks for
    why = "; ".join(f"{host}:{port}: {problem}" for (host, port), problem in problems.items())
    raise KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"No controller could be reached for the metadata: {why.rstrip('.')}. Start the controllers, or "
        "correct their addresses in controller.quorum.bootstrap.servers or controller.quorum.voters.",
    )


def check_cluster(base: Foundation, found: FoundQuorum | None) -> None:
    """Raise INCONSISTENT_CLUSTER_ID if the log directories belong to another cluster than the voters."""
    if found is not None and base.state.cluster_id != found.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"The controllers belong to cluster {uuid_to_text(found.cluster_id)}, but the log "
            f"directories to cluster {uuid_to_text(base.state.cluster_id)}: choose other log.dirs "
            "or other controllers.",
        )


class OpenQuorum(NamedTuple):
    """A node's part in the metadata quorum."""

    quorum: Quorum
    image: MetadataImage  # the metadata at the start
    asks_to_join: bool  # True if this node began with an empty disk and is to vote


def open_quorum(base: Foundation, found: FoundQuorum | None, endpoint: Endpoint) -> OpenQuorum:
    """Open the log of a voter, or make the observer of any other node. Blocks.

    `endpoint` is the address at which this node serves other brokers. KAFKA_STORAGE_ERROR if the metadata log
    is damaged and no other voter can repair it, or if a voter without others has partitions but no metadata.
    """
    empty = MetadataImage(cluster_id=base.state.cluster_id)
    config, identity = base.config, base.identity()
    found_voters = {} if found is None else found.voters
    if not (config.is_voter or config.may_vote):
        return OpenQuorum(_observer(base, empty, found_voters), empty, asks_to_join=False)
    configured = VoterSet.of(
        Voter(one.node_id, ZERO_UUID, one.host, one.port) for one in config.controller_quorum_voters
    )
    own = configured.by_id.get(config.node_id) or Voter(config.node_id, ZERO_UUID, *_own_address(config))
    voter = own._replace(directory_id=identity.directory_id)
    links = _links(base, LinkIdentity(base.state.cluster_id, Peer(*voter[:2]), endpoint))
    # A node that may become a voter is not one until the log names it.
    first = configured if len(configured) or not config.is_voter else VoterSet.of([voter])
    quorum = RaftQuorum(
        config.metadata_log_dir / f"{METADATA_TOPIC}-0",
        base.world.disk,
        voter=voter,
        configured=first,
        chance=base.world.chance,
        unique=base.world.unique,
        now_ms=base.world.clock.now_ms,
        links=links,
        snapshots=SnapshotRule(
            config.metadata_log_max_record_bytes_between_snapshots,
            config.metadata_log_max_snapshot_interval_ms,
        ),
        # A simulated world has a single loop.
        threaded=base.world.has_os_disk,
        loop_factory=base.world.voter_loop,
    )
    loaded = quorum.load(empty)
    if loaded.damage is not None:
        log.error(
            "The metadata log of this voter is damaged: %s It is cut off there, and this voter "
            "cannot vote until the leader has sent it all the metadata that it may have "
            "acknowledged. Check the disk.",
            loaded.damage,
        )
    if loaded.cut_bytes:
        log.warning(
            "%d bytes at the end of the metadata log were removed: a change that was not "
            "completely written when the node stopped.",
            loaded.cut_bytes,
        )
    if loaded.is_empty and config.is_voter and len(configured) < 2 and base.log_manager.holds_logs():
        # Without metadata no topic is known, so every partition would be moved away as a stray.
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"There are partitions in log.dirs, but the metadata log in {config.metadata_log_dir} "
            "is missing or empty: restore it from a backup, or move the partitions away to start "
            "with an empty node.",
        )
    joins = config.may_vote and config.controller_quorum_auto_join_enable
    asks_to_join = loaded.is_empty and (joins or config.node_id in configured)
    if links is None:
        return OpenQuorum(quorum, loaded.image, asks_to_join)
    base.link_accepted.connect(quorum.take_link)
    member = MemberQuorum(
        config.node_id,
        quorum,
        _observer(base, loaded.image, found_voters),
        voters=lambda image: {**found_voters, **_brokers_of_voters(config, quorum, image)},
        is_configured=config.is_voter,
    )
    return OpenQuorum(member, loaded.image, asks_to_join)


def _observer(base: Foundation, image: MetadataImage, voters: Mapping[int, Endpoint]) -> MetadataObserver:
    return MetadataObserver(
        image,
        voters=voters,
        connect=base.peers.client,
        chance=base.world.chance,
        node_id=base.config.node_id,
    )


def _brokers_of_voters(config: BrokerConfig, quorum: RaftQuorum, image: MetadataImage) -> dict[int, Endpoint]:
    """Return the addresses at which the other voters serve brokers: registered, or sent over a link."""
    ids = [one.voter_id for one in image.voters] or [one.node_id for one in config.controller_quorum_voters]
    found: dict[int, Endpoint] = {}
    for voter_id in ids:
        broker = image.brokers.get(voter_id)
        registered = broker and broker.endpoint_for_peers(config.inter_broker_listener_name)
        endpoint = registered or quorum.endpoint_of(voter_id)
        if endpoint is not None and voter_id != config.node_id:
            found[voter_id] = endpoint
    return found


async def join_quorum(base: Foundation, metadata: MetadataRuntime) -> None:
    """Ask to become a voter as soon as this node, which began with an empty disk, has the metadata log.

    The voters of a new quorum need not ask. A voter that lost its disk waits until the old disk is removed
    from the voters.
    """
    own = base.identity()
    name = next((one.name for one in base.config.controller_listeners), CONTROLLER_LISTENER)
    named = [one for one in base.config.controller_quorum_voters if one.node_id == own.node_id]
    where: QuorumVoter | Endpoint = named[0] if named else registered_controllers(base.config)[name]
    command = AddRaftVoter(
        voter_id=own.node_id,
        voter_directory_id=own.directory_id,
        listeners=[VoterListener(name=name, host=where.host, port=where.port)],
    )
    pause_s = FIRST_LOOK_SECONDS
    while True:
        await asyncio.sleep(pause_s)
        voters = {voter.voter_id: voter.directory_id for voter in metadata.image.voters}
        if voters.get(own.node_id) == own.directory_id:
            return
        if voters:
            pause_s = JOIN_PAUSE_SECONDS
            if own.node_id not in voters:
                try:
                    await metadata.submit(command)
                except KafkaError as error:
                    log.info("This node cannot vote yet: %s", error)


def _own_address(config: BrokerConfig) -> tuple[str, int]:
    """Return the address at which later voters will reach a node that forms a quorum alone."""
    listener = next(iter(config.controller_listeners), None)
    host = listener.host if listener is not None else ""
    return host or socket.gethostname(), 0 if listener is None else listener.port


def _links(base: Foundation, identity: LinkIdentity) -> LinkSettings | None:
    config = base.config
    if not config.controller_listeners or config.cluster_secret is None:
        return None
    first, *more = config.controller_listeners
    return LinkSettings(
        identity,
        cluster_key(config.cluster_secret),
        (first.host, first.port),
        _tls(base),
        [
            LinkListener(one.host, one.port, _tls_of(base, one.name), _users_of(base, one.name))
            for one in more
        ],
        _users_of(base, first.name),
        lambda: _login(base),
        is_shared=not config.is_broker,
    )


def _users_of(base: Foundation, name: str) -> Callable[[], Mapping[str, str]] | None:
    """Return a function for the current users of a controller listener; None if it has no logins."""
    if name not in base.config.controller_sasl:
        return None
    return lambda: base.config.controller_sasl[name].mechanisms[PLAIN].passwords or {}


def _login(base: Foundation) -> LinkLogin | None:
    """Return the user by which this node logs in to controllers; None without a login."""
    own = base.config.controller_login
    return None if own is None else LinkLogin(user=own.user, password=own.password)


def _tls(base: Foundation) -> Callable[[], LinkTls] | None:
    """Return a function for the TLS with which this node dials controllers; None without TLS."""
    security = base.config.controller_security
    return None if security is None else _tls_of(base, security.listener)


def _tls_of(base: Foundation, name: str) -> Callable[[], LinkTls] | None:
    """Return a function, for any thread, for the current TLS of a controller listener; None without TLS."""
    if name not in base.config.listener_security:
        return None
    stores = base.listener_tls
    return lambda: LinkTls(stores.accepting(name), *stores.linking(name))
