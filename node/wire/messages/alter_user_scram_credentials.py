"""AlterUserScramCredentials (key 51): set or remove users' SCRAM credentials (KIP-554)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class ScramCredentialDeletion:
    name: str = schema.string()
    mechanism: int = schema.int8()


@struct
class ScramCredentialUpsertion:
    name: str = schema.string()
    mechanism: int = schema.int8()
    iterations: int = schema.int32()
    salt: bytes = schema.secret()
    salted_password: bytes = schema.secret()


@message(api_key=51, versions=(0, 0), flexible_since=0)
class AlterUserScramCredentialsRequest:
    deletions: Sequence[ScramCredentialDeletion] = schema.array(ScramCredentialDeletion)
    upsertions: Sequence[ScramCredentialUpsertion] = schema.array(ScramCredentialUpsertion)


@struct
class AlterUserScramCredentialsResult:
    user: str = schema.string()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)


@message(api_key=51, versions=(0, 0), flexible_since=0)
class AlterUserScramCredentialsResponse:
    throttle_time_ms: int = schema.int32()
    results: Sequence[AlterUserScramCredentialsResult] = schema.array(AlterUserScramCredentialsResult)
