"""How a setting is refused that cannot be what it is, beside the others."""

from ottla.logstore.words.errors import ErrorCode, KafkaError


def invalid(setting: str, problem: str) -> KafkaError:
    """Return why a setting cannot be what it is."""
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid configuration {setting}: {problem}")
