"""Collects the facts of a cluster, or of a node on its own machine, and judges them."""

import asyncio
import resource
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.compression import Compression, missing_codecs
from ottla.logstore.words.schema import schema_of
from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.node.client.cluster_client import Client
from ottla.node.client.cluster_health import Health
from ottla.node.client.log_dirs import BrokerLogDirs
from ottla.node.doctor import (
    clock_findings,
    codec_findings,
    disk_findings,
    down_findings,
    endpoint_findings,
    limit_findings,
    log_findings,
    partition_findings,
    quorum_findings,
    readiness_findings,
    rest_findings,
    secure_dir_findings,
    security_findings,
    share_findings,
    version_findings,
)
from ottla.node.doctor.ask_cluster import (
    Dial,
    ask_cluster,
    ask_log_dirs,
    ask_quorum,
    unready_sentence,
)
from ottla.node.doctor.codec_findings import MissingCodec
from ottla.node.doctor.disk_findings import Expected
from ottla.node.doctor.endpoint_facts import EndpointFacts, ListenerFacts, Speaks
from ottla.node.doctor.finding import Finding, by_severity, note, problem
from ottla.node.doctor.limit_findings import LimitFacts
from ottla.node.doctor.look_at_disk import look_at_disk
from ottla.node.doctor.look_at_secure_dir import keystore_to_be_made, look_at_secure_dir
from ottla.node.doctor.look_at_security import look_at_files, look_at_tls, look_at_trust
from ottla.node.doctor.quorum_findings import QuorumFacts
from ottla.node.doctor.rest_findings import RestFacts
from ottla.node.doctor.security_findings import NodeListeners
from ottla.node.doctor.try_endpoint import has_address, try_endpoint
from ottla.node.doctor.version_findings import NEEDED, VersionFacts
from ottla.node.secure_client.client_security import PLAINTEXT, ClientSecurity
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.exposed_listeners import anonymous_ways_of
from ottla.node.settings.listener_settings import Listener, host_from_here
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey

MAX_FILES: Final = 1_048_576  # the limit that a node sets if the kernel allows it


async def diagnose_cluster(
    bootstrap: Sequence[tuple[str, int]],
    *,
    timeout_s: float,
    security: ClientSecurity = PLAINTEXT,
    dial: Dial | None = None,
) -> list[Finding]:
    """Return the problems of the cluster behind these addresses, as seen from this client."""
    facts = await ask_cluster(bootstrap, timeout_s=timeout_s, security=security, dial=dial)
    down = [one.broker_id for one in facts.fenced]
    down_at = [(one.host, one.port) for one in facts.fenced]
    found = list(endpoint_findings.of_bootstrap(facts.bootstrap, down_at))
    found += endpoint_findings.of_advertised(facts.advertised)
    found += security_findings.of_listeners(facts.listeners)
    found += rest_findings.of_rest(facts.rest)
    found += security_findings.of_access(facts.access)
    found += security_findings.of_refused(facts.refused)
    found += _of_cluster(down, facts.quorum, facts.health, facts.log_dirs)
    found += quorum_findings.of_links(facts.unlinked, down)
    found += codec_findings.of_codecs(facts.missing_codecs)
    endpoints = {one.name: one for one in (*facts.bootstrap, *(one.endpoint for one in facts.advertised))}
    shown = (*endpoints.values(), *facts.rest_endpoints)
    found += security_findings.of_certificates(shown, datetime.now(UTC))
    served = [_versions(one) for one in endpoints.values() if one.speaks is Speaks.KAFKA]
    found += version_findings.of_versions(served, _ours())
    found += version_findings.of_clients(facts.clients)
    found += clock_findings.of_clocks(facts.clocks)
    found += limit_findings.of_limits(facts.limits)
    found += log_findings.of_uncleanable(facts.uncleanable)
    found += log_findings.of_damaged(facts.damaged)
    found += share_findings.of_share_groups(facts.share_groups)
    found += share_findings.of_ignored_letters(facts.ignored_groups, facts.share_version)
    if facts.unreached:
        ids = ", ".join(map(str, sorted(facts.unreached)))
        nodes = f"node {ids}" if len(facts.unreached) == 1 else f"nodes {ids}"
        found.append(
            note(
                "clock",
                f"Clocks, open files and log cleaners of {nodes} were not checked: their "
                "REST API could not be reached.",
            )
        )
    return found


class NodeAnswers(NamedTuple):
    """The answers of nodes about the quorum (None: this client may not ask) and their log directories."""

    quorum: QuorumFacts | None
    log_dirs: Sequence[BrokerLogDirs]


async def ask_nodes(client: Client, health: Health) -> NodeAnswers:
    """Ask the quorum and the running brokers, within the deadline of this client."""
    quorum = await ask_quorum(client.until(client.deadline.share(2)))
    return NodeAnswers(
        quorum, await ask_log_dirs(client, [one for one in health.brokers if not one.is_fenced])
    )


def causes_of(health: Health, answers: NodeAnswers) -> list[Finding]:
    """Return the findings of `diagnose_cluster` about brokers, the quorum, partitions and disks."""
    fenced = [one.broker_id for one in health.brokers if one.is_fenced]
    return by_severity(_of_cluster(fenced, answers.quorum, health, answers.log_dirs))


def _of_cluster(
    down: Sequence[int],
    quorum: QuorumFacts | None,
    health: Health | None,
    log_dirs: Sequence[BrokerLogDirs],
) -> list[Finding]:
    """Return the findings about the facts that come over Kafka's protocol."""
    found = list(down_findings.of_down(down, quorum, health))
    if quorum is not None:
        found += quorum_findings.of_quorum(quorum, down)
    found += partition_findings.of_partitions(health, down)
    found += disk_findings.of_brokers(log_dirs)
    return found


async def diagnose_node(
    config: BrokerConfig, *, timeout_s: float, written: Sequence[Path] = ()
) -> list[Finding]:
    """Return the problems that a node with this configuration has, or would have, on this machine.

    `written` are the files of the settings.
    """
    disks = [await asyncio.to_thread(look_at_disk, path) for path in config.log_dirs]
    is_running = any(one.locked_by is not None for one in disks)
    listeners = [await _listener(one, is_running, timeout_s) for one in config.listeners]
    is_serving = any(one.endpoint.speaks in (Speaks.KAFKA, Speaks.TLS) for one in listeners)
    cluster_id = None if config.cluster_id is None else uuid_to_text(config.cluster_id)
    found = list(endpoint_findings.of_listeners(listeners))
    for one in config.advertised_listeners:
        at = await try_endpoint(one.host, one.port, timeout_s=timeout_s)
        if at.speaks is Speaks.UNRESOLVED:
            sentence = (
                f"advertised.listeners contains {one.host}, which cannot be resolved here ({at.reason})."
            )
            found.append(problem("address", sentence))
    found += disk_findings.of_disks(disks, Expected(cluster_id, config.node_id, is_serving))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_FILES if hard == resource.RLIM_INFINITY else hard
    if not is_running:
        found += limit_findings.of_limits([LimitFacts(f"Node {config.node_id}, started here,", limit, None)])
    if is_running and config.ottla_rest_listeners:
        first = config.ottla_rest_listeners[0]
        reason = await unready_sentence(first._replace(host=host_from_here(first.host)), timeout_s)
        found += readiness_findings.of_readiness(config.node_id, reason)
    found += codec_findings.of_codecs(_codecs(config, await asyncio.to_thread(missing_codecs)))
    found += [note("setting", warning) for warning in config.warnings]
    now = datetime.now(UTC)
    found += secure_dir_findings.of_directory(await asyncio.to_thread(look_at_secure_dir, config), now)
    not_yet = await asyncio.to_thread(keystore_to_be_made, config)
    found += security_findings.of_tls(await asyncio.to_thread(look_at_tls, config, now, not_yet))
    found += security_findings.of_trust(await asyncio.to_thread(look_at_trust, config))
    found += security_findings.of_files(await asyncio.to_thread(look_at_files, config, written))
    own = config.all_listeners
    has_authorizer = config.authorizer is not None
    reached = NodeListeners(config.node_id, own, has_authorizer, anonymous_ways_of(config))
    found += security_findings.of_listeners([reached], names_nodes=False)
    rest = RestFacts(config.node_id, config.ottla_rest_listeners, config.rest_logins.methods, has_authorizer)
    found += rest_findings.of_rest([rest], names_nodes=False)
    return found


def _codecs(config: BrokerConfig, missing: Sequence[Compression]) -> list[MissingCodec]:
    """Return the codecs that this machine lacks, each with the settings that use it."""
    needed = {
        "compression.type": str(config.values["compression.type"]),
        "offsets.topic.compression.codec": Compression(config.offsets_topic_compression_codec).name.lower(),
    }
    return [
        MissingCodec(
            f"Node {config.node_id}", codec, [name for name, value in needed.items() if value == codec]
        )
        for codec in (one.name.lower() for one in missing)
    ]


async def _listener(one: Listener, is_running: bool, timeout_s: float) -> ListenerFacts:
    endpoint = await try_endpoint(host_from_here(one.host), one.port, timeout_s=timeout_s)
    return ListenerFacts(one.name, one.security_protocol, endpoint, is_running, await has_address(one.host))


def _versions(at: EndpointFacts) -> VersionFacts:
    known = {key.value: key.api_name for key in ApiKey}
    return VersionFacts(
        at.name, {known.get(key, str(key)): versions for key, versions in at.versions.items()}
    )


def _ours() -> dict[str, tuple[int, int]]:
    by_name = {key.api_name: key for key in ApiKey}
    schemas = {name: schema_of(codec.request_class(by_name[name])) for name in NEEDED}
    return {name: (schema.min_version, schema.max_version) for name, schema in schemas.items()}
