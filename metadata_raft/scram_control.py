"""Decides changes of users' SCRAM credentials (KIP-554)."""

from collections.abc import Callable

from ottla.logstore.words.errors import ErrorCode, KafkaError, kept
from ottla.metadata_raft.commands import (
    AlterUserScramCredentials,
    AlterUserScramCredentialsReply,
    NamedResult,
    ScramDeletion,
    ScramUpsertion,
)
from ottla.metadata_raft.controller_config import MAX_SCRAM_CREDENTIALS
from ottla.metadata_raft.decision import Decision
from ottla.metadata_raft.feature_control import check_security_version
from ottla.metadata_raft.image import MetadataImage, ScramKey
from ottla.metadata_raft.records import (
    MetadataRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from ottla.metadata_raft.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, mechanism_of

_TWICE = "A user credential cannot be altered twice in the same request"


def alter_user_scram_credentials(image: MetadataImage, command: AlterUserScramCredentials) -> Decision:
    """Decide changes of credentials, user by user: one invalid change fails all changes of that user."""
    check_security_version(image, "SCRAM credentials")
    wanted: dict[str, ScramDeletion | ScramUpsertion] = {}
    refused: dict[str, KafkaError] = {}

    def take(change: ScramDeletion | ScramUpsertion, check: Callable[[], None]) -> None:
        name = change.name
        if name in refused:
            return
        try:
            if wanted.pop(name, None) is not None:
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
            check()
            wanted[name] = change
        except KafkaError as error:
            refused[name] = kept(error)

    for deletion in command.deletions:
        take(deletion, lambda one=deletion: _check_deletion(image, one))  # type: ignore[misc]
    for upsertion in command.upsertions:
        take(upsertion, lambda one=upsertion: _check_upsertion(one))  # type: ignore[misc]
    _check_number(image, wanted)
    records: list[MetadataRecord] = [_record(change) for change in wanted.values()]
    results = [NamedResult(name=name) for name in wanted]
    results += [
        NamedResult(name=name, error_code=error.code, error_message=error.detail)
        for name, error in refused.items()
    ]
    return Decision(records=records, reply=AlterUserScramCredentialsReply(results=results))


def _record(change: ScramDeletion | ScramUpsertion) -> MetadataRecord:
    if isinstance(change, ScramDeletion):
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=change.salt,
        stored_key=change.stored_key,
        server_key=change.server_key,
        iterations=change.iterations,
    )


def _check_deletion(image: MetadataImage, deletion: ScramDeletion) -> None:
    _checked_mechanism(deletion.name, deletion.mechanism)
    if ScramKey(deletion.name, deletion.mechanism) not in image.scram_credentials:
        raise KafkaError(
            ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        )


def _check_upsertion(upsertion: ScramUpsertion) -> None:
    mechanism = _checked_mechanism(upsertion.name, upsertion.mechanism)
    if upsertion.iterations < MIN_ITERATIONS:
        raise _unacceptable("Too few iterations")
    if upsertion.iterations > MAX_ITERATIONS:
        raise _unacceptable("Too many iterations")
    # Kafka accepts these, although no client could ever log in with them.
    if not upsertion.salt:
        raise _unacceptable("The salt must not be empty")
    if not len(upsertion.stored_key) == len(upsertion.server_key) == mechanism.key_bytes:
        raise _unacceptable(
            f"A salted password for {mechanism.name.replace('_', '-')} must have {mechanism.key_bytes} bytes"
        )


def _checked_mechanism(name: str, number: int) -> ScramMechanism:
    if not name:
        raise _unacceptable("Username must not be empty")
    mechanism = mechanism_of(number)
    if mechanism is ScramMechanism.UNKNOWN:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return mechanism


def _unacceptable(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, reason)


def _check_number(image: MetadataImage, wanted: dict[str, ScramDeletion | ScramUpsertion]) -> None:
    known = image.scram_credentials
    new = sum(
        isinstance(one, ScramUpsertion) and ScramKey(one.name, one.mechanism) not in known
        for one in wanted.values()
    )
    if new and len(known) + new > MAX_SCRAM_CREDENTIALS:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"The cluster may have at most {MAX_SCRAM_CREDENTIALS} SCRAM credentials, and has {len(known)}.",
        )
