"""`ottla secure ...`: creates the directory of keys and certificates of a secured cluster."""

import os
from collections.abc import Sequence
from pathlib import Path

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.escaped_text import escape_controls
from ottla.node.cli.answers import answer, print_json
from ottla.node.cli.failure import CommandError
from ottla.node.secure_setup.issued_certificates import Wanted, checked_host, of_client, of_node
from ottla.node.secure_setup.node_keys import LOCAL_HOSTS, hosts_to_keep
from ottla.node.secure_setup.secure_directory import complete, issue_more
from ottla.node.settings.secure_settings import SECURE, SECURE_DIR, SecureFiles


def init(directory: Path, *, nodes: int, hosts: Sequence[str], bootstrap: str, as_json: bool) -> None:
    """Create the missing files of a directory for nodes 0 to `nodes` - 1, and print all of them."""
    files = SecureFiles(directory)
    try:
        names = [*LOCAL_HOSTS, *map(checked_host, hosts)]
        made = complete(files, hosts_of=dict.fromkeys(range(nodes), names), bootstrap=bootstrap)
    except KafkaError as error:
        raise CommandError(escape_controls(error.detail)) from None
    if as_json:
        print_json([{"file": str(path), "made": path in made} for path in _all_files(files, nodes)])
        return
    for path in _all_files(files, nodes):
        print(f"{'made' if path in made else 'kept'} {path}")
    print(f"Copy these files to each node, and set {SECURE}=true and {SECURE_DIR}={directory} there.")
    print(f"Keep {files.authority_key} in a safe place: nodes need it only to renew their own certificates.")


def certificate(
    directory: Path,
    *,
    node_id: int | None,
    client: str | None,
    hosts: Sequence[str],
    out: Path | None,
    is_renewal: bool,
    as_json: bool,
) -> None:
    """Issue the certificate of a node or of a client by the authority of a directory."""
    files = SecureFiles(directory)
    try:
        wanted = _wanted(node_id, client, hosts)
        path = out or _file_of(files, node_id, client)
        if is_renewal:
            wanted = _wanted(node_id, client, [*hosts, *hosts_to_keep(path)])
        issue_more(files, {path: wanted}, may_replace=is_renewal)
    except KafkaError as error:
        raise CommandError(escape_controls(error.detail)) from None
    except OSError as error:
        raise CommandError(f"{error.filename or directory}: {os.strerror(error.errno or 0)}.") from None
    named = f" for {', '.join(wanted.hosts)}" if wanted.hosts else ""
    row = {"file": str(path), "common_name": wanted.name, "hosts": list(wanted.hosts)}
    answer(row, f"issued {path}: CN={wanted.name}{named}", as_json=as_json)


def _file_of(files: SecureFiles, node_id: int | None, client: str | None) -> Path:
    if client is None:
        assert node_id is not None, "one of them is given"
        return files.node(node_id)
    return files.directory / f"client-{client.replace(' ', '-')}.pem"


def _wanted(node_id: int | None, client: str | None, hosts: Sequence[str]) -> Wanted:
    if client is None:
        assert node_id is not None, "one of them is given"
        return of_node(node_id, [*LOCAL_HOSTS, *hosts])
    return of_client(client)


def _all_files(files: SecureFiles, nodes: int) -> list[Path]:
    return [
        files.authority,
        files.authority_key,
        files.cluster_secret,
        *(files.node(node_id) for node_id in range(nodes)),
        files.client_properties,
    ]
