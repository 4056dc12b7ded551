"""Names the right on the cluster that a login lacks, since not every server does."""

import re
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.node.client.cluster_client import check

_NAMES_IT: Final = re.compile(r"needs [A-Z_]+ permission")


def check_right(error_code: int, message: str | None, subject: str, right: AclOperation) -> None:
    """Raise what a field of an answer says, as `check` does; a refusal says which right is missing."""
    if error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED and not _NAMES_IT.search(message or ""):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"this client needs {right.name} permission on the cluster for {subject}",
        )
    check(error_code, message, subject)


def error_of(error_code: int, message: str | None, subject: str, right: AclOperation) -> KafkaError | None:
    """Return what `check_right` raises, None where it raises nothing."""
    try:
        check_right(error_code, message, subject, right)
    except KafkaError as error:
        return error
    return None
