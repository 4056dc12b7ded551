"""References in settings: `${file:/PATH:KEY}` stands for the value of a key in a file of properties.

It is the notation of Kafka Connect's FileConfigProvider. Options are part of Spark's plans and catalogs,
where others can read them; a file has permissions of its own. It is read when an option is judged, and the
value is passed to the client and nowhere else.
"""

import re
from pathlib import Path
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.node.settings.properties_file import MAX_PROPERTIES_BYTES, parse_properties
from ottla.node.wire.jaas import JaasError, parse_jaas
from ottla.pipeline.words import OptionError

BEGINNING: Final = "${file:"
_JAAS: Final = ".jaas.config"
# Options of a login module that are not secret.
_OPEN_OPTIONS: Final = frozenset(
    {
        "clientId",
        "scope",
        "serviceName",
        "ssl.truststore.location",
        "ssl.truststore.type",
        "tokenauth",
        "username",
    }
)
_REFERENCE: Final = re.compile(r"\$\{file:([^}:]*):([^}]*)\}")


def has_reference(text: str) -> bool:
    """Return True if a text has a reference to a file, well formed or not."""
    return BEGINNING in text


def is_kept_in_files(option: str, text: str) -> bool:
    """Return True if a text holds no secret itself: it is a reference, or a login with references."""
    if _REFERENCE.fullmatch(text.strip()):
        return True
    if not option.lower().endswith(_JAAS):
        return False
    try:
        options = {name: value for module in parse_jaas(text) for name, value in module.options.items()}
    except JaasError:
        return False
    return all(name in _OPEN_OPTIONS or _REFERENCE.fullmatch(value) for name, value in options.items())


def filled_in(option: str, text: str) -> str:
    """Return the text with its references replaced by their values; OptionError for an invalid one.

    Values are not searched for references.
    """
    if not has_reference(text):
        return text
    if len(_REFERENCE.findall(text)) < text.count(BEGINNING):
        raise OptionError(option, f"contains {BEGINNING} without a path and a key; write ${{file:/PATH:KEY}}")
    files: dict[str, dict[str, str]] = {}

    def value_of(match: re.Match[str]) -> str:
        path, key = match[1].strip(), match[2].strip()
        if path not in files:
            files[path] = _properties(option, path)
        if key not in files[path]:
            raise OptionError(
                option, f"refers to the key {key[:80]!r} of {path}, which that file does not have"
            )
        return files[path][key]

    return _REFERENCE.sub(value_of, text)


def _properties(option: str, path: str) -> dict[str, str]:
    if not path.startswith("/"):
        raise OptionError(
            option, f"refers to the file {path[:80]!r}; give its whole path, which begins with /"
        )
    try:
        with Path(path).open("rb") as file:
            return parse_properties(file.read(MAX_PROPERTIES_BYTES + 1), path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a valid path"
        raise OptionError(
            option, f"refers to the file {path[:200]}, which cannot be read: {reason}"
        ) from None
    except KafkaError as error:
        raise OptionError(
            option, f"refers to a file that cannot be read: {error.detail.rstrip('.')}"
        ) from None
