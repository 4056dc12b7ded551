"""The certificates of a configuration are read as the node would, and the modes of files with secrets."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from ottla.logstore.words.errors import KafkaError
from ottla.node.doctor.security_findings import FileFacts, TlsFacts
from ottla.node.security.certificate_problems import OwnNode, problem_of, warning_of
from ottla.node.security.server_context import build_tls, own_refusal
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.security_settings import ListenerSecurity
from ottla.node.start.peer_addresses import own_hosts


def look_at_tls(config: BrokerConfig, now: datetime) -> list[TlsFacts]:
    """Return what is found of each listener with TLS. Blocks."""
    node = OwnNode(config.node_id, own_hosts(config))
    return [_of_listener(one, node, now) for one in config.listener_security.values()]


def _of_listener(security: ListenerSecurity, node: OwnNode, now: datetime) -> TlsFacts:
    facts = TlsFacts(security.listener)
    try:
        built = build_tls(security)
    except KafkaError as error:
        return facts._replace(error=error.detail)
    problem = problem_of(built.certificate, security, node, now)
    return facts._replace(
        problem=problem or "",
        warning=warning_of(built.certificate, security, now) or "",
        weakness=built.certificate.weakness,
        distrust="" if problem or not security.is_between_nodes else own_refusal(built),
    )


def look_at_files(config: BrokerConfig, written: Sequence[Path]) -> list[FileFacts]:
    """Return the modes of key stores, and of `written`, the files with settings. Blocks."""
    held: dict[str, str] = {}
    for security in config.listener_security.values():
        if security.keystore.location:
            held[security.keystore.location] = "the private key of this node"
    has_secrets = config.cluster_secret is not None or any(
        "password" in name or name.endswith(("jaas.config", ".key", ".secret")) or name == "ottla.add.scram"
        for name in config.static_texts
    )
    if has_secrets:
        held |= {str(path): "secrets" for path in written}
    found: list[FileFacts] = []
    for path, holds in held.items():
        try:
            found.append(FileFacts(path, holds, Path(path).stat().st_mode & 0o777))
        except OSError:
            continue  # what cannot be read is told where it is read
    return found
