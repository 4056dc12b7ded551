"""Collects facts from the nodes of a cluster, over Kafka's protocol and over REST.

A node that cannot be asked leaves a gap in the facts, never an error.
"""

import asyncio
import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from ottla.metadata_raft.acl_set import super_users
from ottla.metadata_raft.cluster_features import DEAD_LETTERS_SINCE, SHARE_VERSION
from ottla.node.client.cluster_admin import BROKER_RESOURCE, describe_cluster
from ottla.node.client.cluster_client import Client
from ottla.node.client.cluster_health import Health, cluster_health
from ottla.node.client.config_admin import describe_resources
from ottla.node.client.group_admin import list_groups
from ottla.node.client.log_dirs import BrokerLogDirs, describe_log_dirs
from ottla.node.client.quorum_admin import QuorumView, describe_quorum
from ottla.node.client.share_group_admin import SHARE, share_starts
from ottla.node.client.topic_admin import config_of_group
from ottla.node.doctor.clock_findings import ClockFacts
from ottla.node.doctor.codec_findings import MissingCodec
from ottla.node.doctor.endpoint_facts import AdvertisedFacts, EndpointFacts, Speaks
from ottla.node.doctor.limit_findings import LimitFacts
from ottla.node.doctor.log_findings import DamagedFacts, UncleanableFacts
from ottla.node.doctor.quorum_findings import QuorumFacts, UnlinkedFacts
from ottla.node.doctor.rest_findings import RestFacts
from ottla.node.doctor.security_findings import AccessFacts, NodeListeners, RefusedFacts
from ottla.node.doctor.share_findings import ShareFacts
from ottla.node.doctor.try_endpoint import try_certificate, try_endpoint
from ottla.node.doctor.version_findings import ClientFacts
from ottla.node.net.peer_client import SOFTWARE_NAME, SOFTWARE_VERSION, PeerClient
from ottla.node.node_facts import Connect
from ottla.node.secure_client.client_context import client_context
from ottla.node.secure_client.client_security import PLAINTEXT, ClientSecurity, ClientSecurityError
from ottla.node.secure_client.http_login import authorization_of
from ottla.node.settings.authorization_settings import ALLOW_EVERYONE, AUTHORIZER_CLASS, SUPER_USERS
from ottla.node.settings.exposed_listeners import anonymous_ways
from ottla.node.settings.group_config_def import DEAD_LETTER_TOPIC
from ottla.node.settings.listener_settings import (
    ANYWHERE,
    is_loopback,
    parse_listeners,
    parse_protocol_map,
)
from ottla.node.settings.rest_security_settings import AUTHENTICATION
from ottla.node.settings.rest_settings import (
    ADVERTISED_REST_LISTENER,
    REST_LISTENERS,
    RestAddress,
    parse_rest_listeners,
)
from ottla.node.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.node.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ottla.node.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.node.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.node.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

CLIENT_ID: Final = "ottla-doctor"
FIRST_CONTACT_S: Final = 1.5  # within which voters contact a leader that was elected just now
_OF_SECURITY: Final = (
    ErrorCode.SASL_AUTHENTICATION_FAILED,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    ErrorCode.ILLEGAL_SASL_STATE,
    ErrorCode.INVALID_CONFIG,
)
_SECURITY_KEYS: Final = (
    "listeners",
    "listener.security.protocol.map",
    "controller.listener.names",
    AUTHORIZER_CLASS,
    SUPER_USERS,
    ALLOW_EVERYONE,
    AUTHENTICATION,
)
MAX_SHARE_GROUPS: Final = 500  # each takes some milliseconds
MAX_NODE_BYTES: Final = 1024 * 1024  # of a response to GET /v1/node


class ClusterFacts(NamedTuple):
    """The facts about a cluster, as far as its nodes returned them."""

    bootstrap: Sequence[EndpointFacts]
    advertised: Sequence[AdvertisedFacts]
    fenced: Sequence[DescribeClusterBroker]
    quorum: QuorumFacts | None  # None if no node could be asked
    health: Health | None  # None if no node could be asked
    log_dirs: Sequence[BrokerLogDirs]  # of running brokers
    clocks: Sequence[ClockFacts]
    limits: Sequence[LimitFacts]
    clients: Sequence[ClientFacts]
    uncleanable: Sequence[UncleanableFacts]
    damaged: Sequence[DamagedFacts]
    unlinked: Sequence[UnlinkedFacts]
    missing_codecs: Sequence[MissingCodec]
    refused: Sequence[RefusedFacts]
    listeners: Sequence[NodeListeners]  # of nodes whose settings are readable
    access: AccessFacts | None  # None without an authorizer, or if its users and ACLs are not readable
    share_groups: Sequence[ShareFacts]  # of the partitions that members read
    unreached: Sequence[int]  # nodes whose REST API could not be reached
    rest: Sequence[RestFacts] = ()  # of nodes whose settings are readable
    rest_endpoints: Sequence[EndpointFacts] = ()  # REST APIs with TLS, and their certificates
    share_version: int = 0
    ignored_groups: Sequence[str] = ()  # want dead letters, which this share.version does not have


class Dial(NamedTuple):
    """The connections of a diagnosis that a REST request asks for, with the permissions of its client."""

    connect: Connect
    tls: ssl.SSLContext | None  # for trying the inter-broker listener


class NodeDialer(NamedTuple):
    """The timeout and the security of requests to nodes."""

    timeout_s: float
    security: ClientSecurity
    tls: ssl.SSLContext | None
    dial: Dial | None = None

    async def connect(
        self, host: str, port: int, *, client_id: str = CLIENT_ID, timeout_s: float | None = None
    ) -> PeerClient:
        timeout_s = timeout_s or self.timeout_s
        if self.dial is not None:
            return await self.dial.connect(host, port, client_id=client_id, timeout_s=timeout_s)
        return await PeerClient.connect(
            host, port, client_id=client_id, timeout_s=timeout_s, security=self.security
        )


async def ask_cluster(
    bootstrap: Sequence[tuple[str, int]],
    *,
    timeout_s: float,
    security: ClientSecurity = PLAINTEXT,
    dial: Dial | None = None,
) -> ClusterFacts:
    """Collect facts from all nodes found at these addresses; INVALID_CONFIG if a TLS file is unusable."""
    tls = None if dial is None else dial.tls
    if security.tls is not None:
        tls = await asyncio.to_thread(client_context, security.tls)
    dialer = NodeDialer(timeout_s, security, tls, dial)
    tried = [await try_endpoint(host, port, timeout_s=timeout_s, tls=tls) for host, port in bootstrap]
    tried = [await _with_cluster_id(one, dialer) for one in tried]
    speaking = [(one.host, one.port) for one in tried if one.speaks is Speaks.KAFKA]
    if not speaking:
        return ClusterFacts(tried, (), (), None, None, (), (), (), (), (), (), (), (), (), (), None, (), ())
    client = Client(speaking, timeout_s=timeout_s, connect=dialer.connect)
    try:
        brokers = await _brokers(client)
        quorum = await ask_quorum(client)
        alive = [one for one in brokers if not one.is_fenced]
        health, log_dirs = await _health(client), await ask_log_dirs(client, alive)
        principals, users = await _principals_of_acls(client), await _scram_users(client)
        share_groups = await _share_groups(client)
        share_version = await _share_version(client)
        ignored_groups: Sequence[str] = ()
        if 0 < share_version < DEAD_LETTERS_SINCE:
            ignored_groups = await _groups_with_letters(client)
    finally:
        await client.__aexit__(KafkaError, None, None)  # closes the connections at once
    is_local = all(is_loopback(address) for one in tried for address in one.addresses)
    advertised = [await _advertised(one, is_local, dialer) for one in alive]
    ids = {one.name: one.cluster_id for one in tried if one.cluster_id is not None}
    ids |= {
        one.endpoint.name: one.endpoint.cluster_id
        for one in advertised
        if one.endpoint.cluster_id is not None
    }
    settings = {one.node_id: await _settings(one.endpoint, one.node_id, dialer) for one in advertised}
    known = {node_id: one for node_id, one in settings.items() if isinstance(one, Mapping)}
    pages = [await _node_page(one, known.get(one.node_id), dialer) for one in advertised]
    nodes = {one.node_id: facts for one, facts in zip(advertised, pages, strict=True) if facts is not None}
    return ClusterFacts(
        tried,
        advertised,
        [one for one in brokers if one.is_fenced],
        None if quorum is None else quorum._replace(cluster_ids=ids),
        health,
        log_dirs,
        [clock for node_id, facts in nodes.items() if (clock := _clock(node_id, facts)) is not None],
        [limit for node_id, facts in nodes.items() if (limit := _limit(node_id, facts)) is not None],
        [client for node_id, facts in nodes.items() for client in _clients(node_id, facts)],
        [_uncleanable(node_id, facts) for node_id, facts in nodes.items()],
        [_damaged(node_id, facts) for node_id, facts in nodes.items()],
        [_unlinked(node_id, facts) for node_id, facts in nodes.items()],
        [codec for node_id, facts in nodes.items() for codec in _missing_codecs(node_id, facts)],
        [_refused(node_id, facts) for node_id, facts in nodes.items()],
        [one for node_id, texts in known.items() if (one := listeners_of(node_id, texts)) is not None],
        _access(known.values(), principals, users),
        share_groups,
        [one.node_id for one in advertised if one.node_id not in nodes],
        [rest for node_id, texts in known.items() if (rest := rest_of(node_id, texts)) is not None],
        [
            await try_certificate(one.host, one.port, timeout_s=timeout_s)
            for one in _secure_rest(advertised, known)
        ],
        share_version,
        ignored_groups,
    )


async def _brokers(client: Client) -> Sequence[DescribeClusterBroker]:
    try:
        return (await describe_cluster(client)).brokers
    except KafkaError:
        return ()


async def ask_quorum(client: Client) -> QuorumFacts | None:
    """Return the facts about the quorum, or its failure; None if this client may not ask."""
    try:
        view = await describe_quorum(client)
        without_contact = [one.node_id for one in view.members if one.is_voter and one.last_fetch_ms <= 0]
        if set(without_contact) - {view.leader_id}:  # the leader may have been elected just now
            await asyncio.sleep(min(FIRST_CONTACT_S, client.remaining_s / 2))
            view = await describe_quorum(client)
    except KafkaError as error:
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return None
        return QuorumFacts(None, error.detail or error.code.name, _leaders_now_ms(None), {})
    return QuorumFacts(view, None, _leaders_now_ms(view), {})


async def _health(client: Client) -> Health | None:
    try:
        return await cluster_health(client)
    except KafkaError:
        return None


async def ask_log_dirs(client: Client, alive: Sequence[DescribeClusterBroker]) -> list[BrokerLogDirs]:
    """Return the log directories without their replicas, of which there may be very many."""
    try:
        return await describe_log_dirs(client, broker_ids=[one.broker_id for one in alive], partitions=())
    except KafkaError:
        return []


def _leaders_now_ms(view: QuorumView | None) -> int:
    """Return the current time by the leader's clock: the newest time in its response, else by this clock."""
    contact_ms = (
        [max(one.last_fetch_ms, one.last_caught_up_ms) for one in view.members] if view is not None else []
    )
    return max(contact_ms, default=-1) if max(contact_ms, default=-1) >= 0 else int(time.time() * 1000)


async def _principals_of_acls(client: Client) -> frozenset[str] | None:
    """Return the principals of all ACLs; None without an authorizer, or if this client may not ask."""
    request = DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=AclPermissionType.ANY,
    )
    try:
        node = await client.any_node()
        answer = await node.request(request, DescribeAclsResponse, timeout_s=client.remaining_s)
    except KafkaError:
        return None
    if answer.error_code:
        return None
    return frozenset(acl.principal for one in answer.resources for acl in one.acls)


async def _scram_users(client: Client) -> frozenset[str] | None:
    """Return the SCRAM users of the cluster; None if this client may not ask."""
    try:
        node = await client.any_node()
        answer = await node.request(
            DescribeUserScramCredentialsRequest(users=None),
            DescribeUserScramCredentialsResponse,
            timeout_s=client.remaining_s,
        )
    except KafkaError:
        return None
    return None if answer.error_code else frozenset(one.user for one in answer.results)


async def _share_groups(client: Client) -> list[ShareFacts]:
    """Return the records in flight of the share groups that this client may see."""
    try:
        listed = await list_groups(client, states=(), types=(SHARE,))
    except KafkaError:
        return []
    found: list[ShareFacts] = []
    named = [one.group_id for one in listed.groups][:MAX_SHARE_GROUPS]
    for place, group_id in enumerate(named):
        # A group whose coordinator does not answer uses up only its share of the time.
        mine = client.until(client.deadline.share(len(named) - place))
        with suppress(KafkaError):
            starts = await share_starts(mine, group_id, with_in_flight=True)
            states = {
                partition: start.in_flight
                for partition, start in starts.items()
                if start.in_flight is not None
            }
            topic = None
            if any(state.letter_failure for state in states.values()):
                topic = await _letter_topic(mine, group_id)
            found += [ShareFacts(group_id, partition, state, topic) for partition, state in states.items()]
    return found


async def _share_version(client: Client) -> int:
    """Return the level of the feature share.version; 0 if unknown, as in a cluster without share groups."""
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
    try:
        node = await client.any_node()
        answer = await node.request(request, ApiVersionsResponse, timeout_s=client.remaining_s)
    except KafkaError:
        return 0
    levels = {one.name: one.max_version_level for one in answer.finalized_features}
    return levels.get(SHARE_VERSION, 0)


async def _groups_with_letters(client: Client) -> list[str]:
    """Return the share groups with a dead letter topic in their settings, as far as these are readable."""
    try:
        listed = await list_groups(client, states=(), types=(SHARE,))
    except KafkaError:
        return []
    named = [one.group_id for one in listed.groups][:MAX_SHARE_GROUPS]
    return [group_id for group_id in named if await _letter_topic(client, group_id)]


async def _letter_topic(client: Client, group_id: str) -> str | None:
    """Return the dead letter topic of a share group; None if this client may not read its settings."""
    group = config_of_group(group_id)
    try:
        settings = (await describe_resources(client, [group]))[group]
    except KafkaError:
        return None
    return next((one.value or None for one in settings if one.name == DEAD_LETTER_TOPIC), None)


def listeners_of(node_id: int, texts: Mapping[str, str]) -> NodeListeners | None:
    """Return the listeners of a node by its settings; None if they cannot be parsed."""
    controllers = [one.strip().upper() for one in texts.get("controller.listener.names", "").split(",")]
    try:
        protocols = parse_protocol_map(texts.get("listener.security.protocol.map", ""))
        spare = {**dict.fromkeys(filter(None, controllers), "PLAINTEXT"), **protocols}
        found = parse_listeners(texts.get("listeners", "").split(","), "listeners", spare)
    except KafkaError:
        return None
    has_authorizer = bool(texts.get(AUTHORIZER_CLASS))
    ways: list[str] = []
    if has_authorizer:
        of_clients = [one for one in found if one.name not in controllers]
        with suppress(KafkaError):
            ways = anonymous_ways(super_users(texts.get(SUPER_USERS, "")), of_clients, _client_auth_in(texts))
    return NodeListeners(node_id, found, has_authorizer, ways)


def rest_of(node_id: int, texts: Mapping[str, str]) -> RestFacts | None:
    """Return the REST API of a node by its settings; None if they cannot be parsed."""
    methods = [one.strip() for one in texts.get(AUTHENTICATION, "").split(",")]
    try:
        addresses = parse_rest_listeners(list(filter(None, texts.get(REST_LISTENERS, "").split(","))))
    except KafkaError:
        return None
    return RestFacts(node_id, addresses, list(filter(None, methods)), bool(texts.get(AUTHORIZER_CLASS)))


def _client_auth_in(texts: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function for the `ssl.client.auth` of a listener in these settings of its node."""
    of_all = texts.get("ssl.client.auth", "")
    return lambda name: texts.get(f"listener.name.{name.lower()}.ssl.client.auth", of_all).lower()


def _access(
    nodes: Iterable[Mapping[str, str]], principals: frozenset[str] | None, users: frozenset[str] | None
) -> AccessFacts | None:
    if principals is None or users is None:
        return None
    texts = list(nodes)
    found: set[str] = set()
    for one in texts:
        with suppress(KafkaError):
            found |= super_users(one.get(SUPER_USERS, ""))
    allows_everyone = any(one.get(ALLOW_EVERYONE, "").lower() == "true" for one in texts)
    return AccessFacts(found, allows_everyone, principals, users)


# ---- one node ------------------------------------------------------------------------------------


async def _with_cluster_id(at: EndpointFacts, dialer: NodeDialer) -> EndpointFacts:
    """Return the facts with the cluster id of the node, or with the reason why it rejects this client."""
    if at.speaks is not Speaks.KAFKA:
        return at
    try:
        node = await dialer.connect(at.host, at.port)
    except KafkaError as error:
        return _denied(at, error)
    try:
        answer = await node.request(
            DescribeClusterRequest(), DescribeClusterResponse, timeout_s=dialer.timeout_s
        )
    except KafkaError as error:
        return _denied(at, error)
    finally:
        node.abort()
    return at._replace(cluster_id=answer.cluster_id or None)


def _denied(at: EndpointFacts, error: KafkaError) -> EndpointFacts:
    """Return the facts with the reason if security caused the error, or unchanged."""
    if error.code not in _OF_SECURITY:
        return at
    return at._replace(speaks=Speaks.DENIED, reason=error.detail)


async def _advertised(broker: DescribeClusterBroker, is_local: bool, dialer: NodeDialer) -> AdvertisedFacts:
    endpoint = await try_endpoint(broker.host, broker.port, timeout_s=dialer.timeout_s, tls=dialer.tls)
    endpoint = await _with_cluster_id(endpoint, dialer)
    is_itself = await _is_node(endpoint, broker.broker_id, dialer)
    return AdvertisedFacts(broker.broker_id, endpoint, is_local, is_itself)


async def _is_node(at: EndpointFacts, node_id: int, dialer: NodeDialer) -> bool | None:
    """Return True if this node answers there, None if unknown; other nodes do not return its settings."""
    found = await _settings(at, node_id, dialer)
    return found if found is None or isinstance(found, bool) else True


async def _settings(at: EndpointFacts, node_id: int, dialer: NodeDialer) -> Mapping[str, str] | bool | None:
    """Return the settings of this node about its REST API and security.

    False if another node answers there, None if that is unknown.
    """
    if at.speaks is not Speaks.KAFKA:
        return None
    resource = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE,
        resource_name=str(node_id),
        configuration_keys=[REST_LISTENERS, ADVERTISED_REST_LISTENER, *_SECURITY_KEYS],
    )
    try:
        node = await dialer.connect(at.host, at.port)
    except KafkaError:
        return None
    try:
        answer = await node.request(
            DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse, timeout_s=dialer.timeout_s
        )
    except KafkaError:
        return None
    finally:
        node.abort()
    if len(answer.results) != 1:
        return None
    if answer.results[0].error_code:
        return False if answer.results[0].error_code == ErrorCode.INVALID_REQUEST else None
    return {one.name: one.value or "" for one in answer.results[0].configs}


# ---- over REST -----------------------------------------------------------------------------------


class _NodePage(NamedTuple):
    """The response to GET /v1/node, and the doctor's clock before and after it."""

    sent_ms: float
    answered_ms: float
    body: Mapping[str, Any]


def _rest_address(node: AdvertisedFacts, settings: Mapping[str, str]) -> RestAddress | None:
    """Return the address of a node's REST API as seen from here; None if its settings have none."""
    listed = settings.get(ADVERTISED_REST_LISTENER) or settings.get(REST_LISTENERS, "").partition(",")[0]
    authority = listed.partition("://")[2].rstrip("/")
    host, _, port = authority.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        return None
    host = host.strip("[]")
    if host in ANYWHERE:
        host = node.endpoint.host
    return RestAddress(host, int(port), listed.startswith("https:"))


def _secure_rest(
    nodes: Iterable[AdvertisedFacts], known: Mapping[int, Mapping[str, str]]
) -> list[RestAddress]:
    """Return the addresses of REST APIs with TLS, without loopback addresses of other machines."""
    found: dict[RestAddress, None] = {}
    for node in nodes:
        at = _rest_address(node, known.get(node.node_id, {}))
        if at is not None and at.is_secure and (not is_loopback(at.host) or is_loopback(node.endpoint.host)):
            found[at] = None
    return list(found)


async def _node_page(
    node: AdvertisedFacts, settings: Mapping[str, str] | None, dialer: NodeDialer
) -> _NodePage | None:
    address = None if settings is None else _rest_address(node, settings)
    if address is None:
        return None
    host, port, is_secure = address
    at = await asyncio.to_thread(rest_access, is_secure, host, dialer, node.endpoint.host)
    page = await asyncio.to_thread(_get, host, port, dialer.timeout_s, "/v1/node", 200, at)
    # Another node may have bound the port before this one.
    return page if page is not None and is_page_of(node, page.body) else None


def is_page_of(node: AdvertisedFacts, body: Mapping[str, Any]) -> bool:
    is_same_cluster = node.endpoint.cluster_id in (None, body.get("cluster_id"))
    return is_same_cluster and body.get("node_id") == node.node_id


class _RestAccess(NamedTuple):
    """The TLS of requests to a REST API (None: without TLS), and the headers of a login."""

    tls: ssl.SSLContext | None = None
    headers: tuple[tuple[str, str], ...] = ()


def rest_access(is_secure: bool, host: str, dialer: NodeDialer, node_host: str) -> _RestAccess:
    """Return the TLS and the login of this client for requests to a REST API.

    A login is sent only over TLS or within this machine. The loopback address of a node on another machine
    would here reach any program that listens on it, so no login is sent there.
    """
    tls = (dialer.tls or ssl.create_default_context()) if is_secure else None
    login = dialer.security.login
    if login is None or not (is_secure or (is_loopback(host) and is_loopback(node_host))):
        return _RestAccess(tls)
    try:
        return _RestAccess(tls, (("Authorization", authorization_of(login)),))
    except (ClientSecurityError, KafkaError):
        return _RestAccess(tls)


async def unready_sentence(rest: RestAddress, timeout_s: float) -> str | None:
    """Return why a node is not ready, as it says; None if it is ready or does not answer."""
    tls = None
    if rest.is_secure:  # without a check of the certificate: the request has nothing secret
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    page = await asyncio.to_thread(_get, rest.host, rest.port, timeout_s, "/readyz", 503, _RestAccess(tls))
    return None if page is None else str(page.body.get("message") or "reason unknown.")


def _get(host: str, port: int, timeout_s: float, path: str, status: int, at: _RestAccess) -> _NodePage | None:
    if at.tls is None:
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    else:
        connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=at.tls)
    try:
        connection.connect()
        sent_ms = time.time() * 1000
        connection.request("GET", path, headers=dict(at.headers))
        answer = connection.getresponse()
        body = json.loads(answer.read(MAX_NODE_BYTES))
        answered_ms = time.time() * 1000
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return (
        _NodePage(sent_ms, answered_ms, body) if answer.status == status and isinstance(body, dict) else None
    )


def _clock(node_id: int, page: _NodePage) -> ClockFacts | None:
    now_ms, jumped_ms = page.body.get("now_ms"), page.body.get("clock_jumped_ms")
    if not isinstance(now_ms, int) or not isinstance(jumped_ms, int):
        return None
    middle = (page.sent_ms + page.answered_ms) / 2
    return ClockFacts(
        node_id, round(now_ms - middle), round((page.answered_ms - page.sent_ms) / 2) + 1, jumped_ms
    )


def _limit(node_id: int, page: _NodePage) -> LimitFacts | None:
    limit, open_files = page.body.get("open_files_limit"), page.body.get("open_files")
    if not isinstance(limit, int) or not isinstance(open_files, int):
        return None
    return LimitFacts(f"Node {node_id}", limit, open_files)


def _clients(node_id: int, page: _NodePage) -> list[ClientFacts]:
    found = page.body.get("refused_requests")
    if not isinstance(found, list):
        return []
    return [
        ClientFacts(
            node_id, str(one.get("software") or "unknown software"), f"{one.get('api')} {one.get('version')}"
        )
        for one in found
        if isinstance(one, dict)
    ]


def _uncleanable(node_id: int, page: _NodePage) -> UncleanableFacts:
    """Return the logs that a node cannot clean; nothing for a node of an earlier version."""
    logs, count = page.body.get("uncleanable_logs"), page.body.get("uncleanable_log_count")
    if not isinstance(logs, list) or not isinstance(count, int):
        return UncleanableFacts(node_id, (), 0)
    named = [
        (f"{one.get('topic')}-{one.get('partition')}", str(one.get("reason")))
        for one in logs
        if isinstance(one, dict)
    ]
    return UncleanableFacts(node_id, named, count)


def _damaged(node_id: int, page: _NodePage) -> DamagedFacts:
    """Return the damaged files of a node; nothing for a node of an earlier version."""
    files, count = page.body.get("damaged_files"), page.body.get("damaged_file_count")
    if not isinstance(files, list) or not isinstance(count, int):
        return DamagedFacts(node_id, (), 0)
    named = [
        (
            f"{one.get('path')} at position {one.get('position')}, offset {one.get('offset')}",
            str(one.get("reason")),
        )
        for one in files
        if isinstance(one, dict)
    ]
    return DamagedFacts(node_id, named, count)


def _unlinked(node_id: int, page: _NodePage) -> UnlinkedFacts:
    """Return the voters that a node has no link to; nothing for a node of an earlier version."""
    found = page.body.get("unlinked_voters")
    return UnlinkedFacts(
        node_id,
        {
            one["node_id"]: str(one.get("problem"))
            for one in (found if isinstance(found, list) else ())
            if isinstance(one, dict) and isinstance(one.get("node_id"), int)
        },
    )


def _refused(node_id: int, page: _NodePage) -> RefusedFacts:
    """Return the certificates that a node has rejected, and the number of ACLs that it does not apply.

    Nothing for a node of an earlier version.
    """
    found, acls = page.body.get("refused_certificates"), page.body.get("unjudged_acls")
    named = [
        (str(one.get("listener")), str(one.get("reason")))
        for one in (found if isinstance(found, list) else ())
        if isinstance(one, dict)
    ]
    return RefusedFacts(node_id, named, acls if isinstance(acls, int) else 0)


def _missing_codecs(node_id: int, page: _NodePage) -> list[MissingCodec]:
    found = page.body.get("missing_codecs")
    missing = []
    for one in found if isinstance(found, list) else ():
        if isinstance(one, dict):
            needed_by = one.get("needed_by")
            users = [str(what) for what in needed_by] if isinstance(needed_by, list) else []
            missing.append(MissingCodec(f"Node {node_id}", str(one.get("codec")), users))
    return missing
