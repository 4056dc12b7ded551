"""Names the right on the cluster that a client lacks, since not every server does."""

import re
from collections.abc import Awaitable
from typing import Final, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.node.client.cluster_client import check

R = TypeVar("R")

_NAMES_IT: Final = re.compile(r"needs [A-Z_]+ permission")


def check_right(error_code: int, message: str | None, subject: str, right: AclOperation) -> None:
    """Raise KafkaError for an error code, as `check` does; an authorization error names the missing right."""
    if error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED and not _NAMES_IT.search(message or ""):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"this client needs {right.name} permission on the cluster for {subject}",
        )
    check(error_code, message, subject)


async def for_a_change(change: Awaitable[R], right: AclOperation) -> R:
    """Return an answer that is needed for a change; if it is denied, name the right that the change needs.

    The right to change something includes the right to see it, so the latter is not the one to grant.
    """
    try:
        return await change
    except KafkaError as error:
        if error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        detail = _NAMES_IT.sub(f"needs {right.name} permission", error.detail)
        raise KafkaError(error.code, detail) from None


def error_of(error_code: int, message: str | None, subject: str, right: AclOperation) -> KafkaError | None:
    """Return the error that `check_right` would raise; None if it would raise none."""
    try:
        check_right(error_code, message, subject, right)
    except KafkaError as error:
        return error
    return None
