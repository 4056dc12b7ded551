"""Judges the directory of keys and certificates of a secured node (`ottla.secure.dir`). Pure."""

import stat
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from ottla.node.doctor.finding import Finding, named, note, problem
from ottla.node.doctor.security_findings import FileFacts, of_files
from ottla.node.security.certificate_problems import SOON

# A new authority has to reach all clients before the old one ends.
AUTHORITY_SOON: Final = timedelta(days=180)
_ROOT: Final = 0


class CertificateFile(NamedTuple):
    """A file with certificates, and the time until which the longest of them is valid."""

    path: str
    valid_until: datetime | None = None
    error: str = ""  # why it cannot be read


class SecretFile(NamedTuple):
    """A file of the directory that is for the user of the node alone."""

    path: str
    holds: str
    mode: int
    owner: int  # the id of a user


class SecureDirectory(NamedTuple):
    """What is found of the directory of a node."""

    path: str
    mode: int | None  # None: there is no such directory
    error: str = ""  # why it cannot be looked at
    data: str = ""  # a data directory that the node has begun in; empty for a node that never ran
    lacks_authority: bool = False  # by whose certificate the node trusts others, or which has signed its own
    lacks_certificate: str = ""  # the name of its file, where the node is to show the one of this directory
    has_authority_key: bool = False
    node_id: int = 0
    secrets: Sequence[SecretFile] = ()
    authority: CertificateFile | None = None
    certificates: Sequence[CertificateFile] = ()  # of nodes, but for those that a listener shows
    left_out: int = 0  # files that were not looked at, as there are too many


def of_directory(found: SecureDirectory | None, now: datetime) -> Iterator[Finding]:
    """Judge the directory of a node; nothing is found where the node is not secured by one."""
    if found is None:
        return
    if found.error:
        yield problem("file", f"{found.path} cannot be read ({found.error}): ask as the user of the node.")
    elif found.mode is None and found.data:
        yield problem(
            "file",
            f"{found.data} has data of a secured node, but there is no directory {found.path}, so the "
            "node does not start: bring it back, or name it by ottla.secure.dir.",
        )
    if found.mode is None:
        return
    yield from _of_mode(found.path, found.mode)
    yield from _of_missing(found)
    yield from of_files(FileFacts(one.path, one.holds, one.mode) for one in found.secrets)
    # Kubernetes hands files of a Secret to the group of a pod, and they belong to root.
    shared = [one.path for one in found.secrets if one.mode & 0o070 and one.owner != _ROOT]
    if shared:
        yield note(
            "file",
            f"The group of {named(shared)} can read or change what is for the user of the node alone: "
            "chmod 600.",
        )
    if found.authority is not None:
        yield from _of_authority(found.authority, now)
    for one in found.certificates:
        yield from _of_certificate(one, now)
    if found.left_out:
        yield note("file", f"{found.left_out} more certificates in {found.path} were not looked at.")


def _of_mode(path: str, mode: int) -> Iterator[Finding]:
    is_sticky = bool(mode & stat.S_ISVTX)  # who may write there replaces no file of others
    if mode & stat.S_IWOTH and not is_sticky:
        yield problem(
            "file",
            f"Every user of this machine can replace the keys in {path}, so a node makes none: chmod 700 "
            f"{path}",
        )
    elif mode & stat.S_IWGRP and not is_sticky:
        yield note("file", f"The group of {path} can replace the keys in it: chmod 700 {path}")
    elif mode & 0o005 and not is_sticky:
        yield note("file", f"Every user of this machine can see which keys lie in {path}: chmod 700 {path}")


def _of_missing(found: SecureDirectory) -> Iterator[Finding]:
    if found.lacks_authority and (found.data or found.has_authority_key):
        yield problem(
            "file",
            f"{found.path} has no ca.pem, the certificate of the authority, so the node does not start: "
            "bring it back; clients have a copy.",
        )
    elif found.lacks_certificate and found.data:
        if found.has_authority_key:
            yield note(
                "file",
                f"{found.path} has no {found.lacks_certificate}: the next start of the node makes another "
                "one.",
            )
        else:
            yield problem(
                "file",
                f"{found.path} has no {found.lacks_certificate}, so the node does not start: bring it back, "
                "or issue another one where ca.key is, by `ottla secure certificate DIR --node "
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
            f"The authority in {file.path} expired on {day}, so nobody trusts certificates that it has "
            f"signed: {go_over}.",
        )
    elif left < SOON:
        yield problem("certificate", f"The authority in {file.path} expires on {day}: {go_over}.")
    elif left < AUTHORITY_SOON:
        yield note(
            "certificate",
            f"The authority in {file.path} expires on {day}, and each client must have another one by "
            f"then: {go_over}.",
        )


def _of_certificate(file: CertificateFile, now: datetime) -> Iterator[Finding]:
    renew = "renew it by `ottla secure certificate DIR --node ID --renew`"
    if file.valid_until is None:
        yield problem("certificate", f"The certificate in {file.path} cannot be read: {file.error}.")
    elif file.valid_until - now < SOON:
        ends = "expired" if file.valid_until < now else "expires"
        day = f"{file.valid_until:%Y-%m-%d}"
        yield problem("certificate", f"The certificate in {file.path} {ends} on {day}: {renew}.")
