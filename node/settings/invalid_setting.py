"""The error of a setting that is not valid, by itself or beside the others."""

from ottla.logstore.words.errors import ErrorCode, KafkaError


def invalid(setting: str, problem: str) -> KafkaError:
    """Return the error INVALID_CONFIG for a setting, with the problem as one sentence."""
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid configuration {setting}: {problem}")
