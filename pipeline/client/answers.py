"""Errors in answers, as exceptions with what was asked about; the same words whatever the server is."""

from logstore.errors import ErrorCode, KafkaError


def to_error(error_code: int, subject: str, message: str | None = None) -> KafkaError:
    """The exception for an error in an answer: what was asked about, and the server's own words if any."""
    detail = f"{subject}: {message}" if message else subject
    try:
        return KafkaError(ErrorCode(error_code), detail)
    except ValueError:  # a newer server's
        return KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"{detail}: error {error_code}, unknown to this client"
        )


def check(error_code: int, subject: str, message: str | None = None) -> None:
    """Raise what the field of an answer says, if it says anything."""
    if error_code:
        raise to_error(error_code, subject, message)
