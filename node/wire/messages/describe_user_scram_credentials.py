"""DescribeUserScramCredentials (key 50): the SCRAM mechanisms of users (KIP-554)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class UserName:
    name: str = schema.string()


@message(api_key=50, versions=(0, 0), flexible_since=0)
class DescribeUserScramCredentialsRequest:
    users: Sequence[UserName] | None = schema.array(UserName, nullable_since=0)


@struct
class CredentialInfo:
    mechanism: int = schema.int8()
    iterations: int = schema.int32()


@struct
class DescribeUserScramCredentialsResult:
    user: str = schema.string()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
    credential_infos: Sequence[CredentialInfo] = schema.array(CredentialInfo)


@message(api_key=50, versions=(0, 0), flexible_since=0)
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
    results: Sequence[DescribeUserScramCredentialsResult] = schema.array(DescribeUserScramCredentialsResult)
