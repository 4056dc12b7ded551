"""Errors in answers as exceptions, which say what happened and to what."""

from ottla.logstore.words.error_words import sentence_of, subject_of
from ottla.logstore.words.errors import ErrorCode, KafkaError


def to_error(error_code: int, subject: str, message: str | None = None) -> KafkaError:
    """Return the exception for an error in an answer about `subject`."""
    try:
        code = ErrorCode(error_code)
    except ValueError:  # a newer server's code
        refused = (
            f"the server rejected {subject_of(subject)} with error {error_code}, which this "
            "client does not know"
        )
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{refused}: {message}" if message else refused)
    detail = f"{subject_of(subject)}: {message}" if message else sentence_of(code, subject)
    return KafkaError(code, detail)


def check(error_code: int, subject: str, message: str | None = None) -> None:
    """Raise the error that a field of an answer holds, if any."""
    if error_code:
        raise to_error(error_code, subject, message)
