"""Judges the directory of keys and certificates of a secured node (`ottla.secure.dir`). Pure."""

import stat
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from ottla.node.doctor.finding import Finding, named, note, problem
from ottla.node.doctor.security_findings import FileFacts, of_files
from ottla.node.security.certificate_problems import SOON

# A new authority must reach all clients before the old one expires.
AUTHORITY_SOON: Final = timedelta(days=180)
_ROOT: Final = 0


class CertificateFile(NamedTuple):
    """A file of certificates and the end of its validity.

    In a file of authorities the last end counts, in that of a node the end of its own, the first certificate.
    """

    path: str
    valid_until: datetime | None = None
    error: str = ""  # the reason why it cannot be read


class SecretFile(NamedTuple):
    """A file of the directory that only the user of the node may read."""

    path: str
    holds: str
    mode: int
    owner: int  # a user id


class SecureDirectory(NamedTuple):
    """The facts about the directory of a node."""

    path: str
    mode: int | None  # None if the directory does not exist or cannot be read
    error: str = ""  # the reason why it cannot be read
    data: str = ""  # a data directory of the node; empty if it has never run
    lacks_authority: bool = False  # a missing one that the node needs: to trust others, or as its issuer
    lacks_certificate: str = ""  # the file of the node's certificate, if it is used but missing
    has_authority_key: bool = False
    node_id: int = 0
    secrets: Sequence[SecretFile] = ()
    authority: CertificateFile | None = None
    certificates: Sequence[CertificateFile] = ()  # of nodes, except those that a listener uses
    left_out: int = 0  # the number of files that were not read, because there are too many


def of_directory(found: SecureDirectory | None, now: datetime) -> Iterator[Finding]:
    """Yield the problems of the directory of a node; none if the node has no such directory (None)."""
    if found is None:
        return
    if found.error:
        yield problem(
            "file", f"{found.path} cannot be read ({found.error}): run the doctor as the user of the node."
        )
    elif found.mode is None and found.data:
        yield problem(
            "file",
            f"{found.data} has data of a secured node, but there is no directory {found.path}, so the "
            "node does not start: restore the directory, or set ottla.secure.dir to its new place.",
        )
    if found.mode is None:
        return
    yield from _of_mode(found.path, found.mode)
    yield from _of_missing(found)
    yield from of_files(FileFacts(one.path, one.holds, one.mode) for one in found.secrets)
    # In Kubernetes, the files of a Secret belong to root and to the group of the pod.
    shared = [one.path for one in found.secrets if one.mode & 0o070 and one.owner != _ROOT]
    if shared:
        yield note(
            "file",
            f"The group of {named(shared)} can read or change secrets of the node's user: chmod 600.",
        )
    if found.authority is not None:
        yield from _of_authority(found.authority, now)
    for one in found.certificates:
        yield from _of_certificate(one, now)
    if found.left_out:
        yield note("file", f"{found.left_out} more certificates in {found.path} were not checked.")


def _of_mode(path: str, mode: int) -> Iterator[Finding]:
    is_sticky = bool(mode & stat.S_ISVTX)  # users can then not replace files of other users
    if mode & stat.S_IWOTH and not is_sticky:
        yield problem(
            "file",
            f"Every user of this machine can replace the keys in {path}, so a node creates none there: "
            f"chmod 700 {path}",
        )
    elif mode & stat.S_IWGRP and not is_sticky:
        yield note("file", f"The group of {path} can replace the keys in it: chmod 700 {path}")
    elif mode & 0o005 and not is_sticky:
        yield note("file", f"Every user of this machine can list the keys in {path}: chmod 700 {path}")


def _of_missing(found: SecureDirectory) -> Iterator[Finding]:
    if found.lacks_authority and (found.data or found.has_authority_key):
        yield problem(
            "file",
            f"{found.path} has no ca.pem, the certificate of the authority, so the node does not start: "
            "restore it; clients have a copy.",
        )
    elif found.lacks_certificate and found.data:
        if found.has_authority_key:
            yield note(
                "file",
                f"{found.path} has no {found.lacks_certificate}: the next start of the node creates one.",
            )
        else:
            yield problem(
                "file",
                f"{found.path} has no {found.lacks_certificate}, so the node does not start: restore it, "
                "or issue another one on the machine with ca.key: `ottla secure certificate DIR --node "
                f"{found.node_id}`.",
            )


def _of_authority(file: CertificateFile, now: datetime) -> Iterator[Finding]:
    if file.valid_until is None:
        yield problem("certificate", f"The authority in {file.path} cannot be read: {file.error}.")
        return
    left, day = file.valid_until - now, f"{file.valid_until:%Y-%m-%d}"
    go_over = "replace it step by step, as the documentation of TLS describes"
    if left < timedelta(0):
        yield problem(
            "certificate",
            f"The authority in {file.path} expired on {day}, so certificates signed by it are not trusted: "
            f"{go_over}.",
        )
    elif left < SOON:
        yield problem("certificate", f"The authority in {file.path} expires on {day}: {go_over}.")
    elif left < AUTHORITY_SOON:
        yield note(
            "certificate",
            f"The authority in {file.path} expires on {day}, and each client needs another one by then: "
            f"{go_over}.",
        )


def _of_certificate(file: CertificateFile, now: datetime) -> Iterator[Finding]:
    renew = "renew it with `ottla secure certificate DIR --node ID --renew`"
    if file.valid_until is None:
        yield problem("certificate", f"The certificate in {file.path} cannot be read: {file.error}.")
    elif file.valid_until - now < SOON:
        ends = "expired" if file.valid_until < now else "expires"
        day = f"{file.valid_until:%Y-%m-%d}"
        yield problem("certificate", f"The certificate in {file.path} {ends} on {day}: {renew}.")
