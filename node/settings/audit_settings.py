"""The broker settings of the audit log, and the file that they describe."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.words.config_def import ConfigKey, ConfigValue, at_least, between
from ottla.node.settings.setting import INT, LONG, LOW, STRING, setting

AUDIT_FILE: Final = "ottla.audit.file"
AUDIT_FILE_MAX_BYTES: Final = "ottla.audit.file.max.bytes"
AUDIT_FILES_MAX: Final = "ottla.audit.files.max"
MIN_FILE_BYTES: Final = 65_536  # room for some lines of maximum length

AUDIT_SETTINGS: Final[tuple[ConfigKey, ...]] = (
    setting(
        AUDIT_FILE,
        STRING,
        None,
        "A file to which the node writes denied requests, failed logins and changes of the cluster, one JSON "
        "object per line. Only its owner can read it. Each node needs a file of its own. If not set, these "
        "events are only in the node's log (logger ottla.audit).",
    ),
    setting(
        AUDIT_FILE_MAX_BYTES,
        LONG,
        104_857_600,
        "The maximum size of the audit file in bytes. A full file is renamed to FILE.1, FILE.1 to FILE.2, "
        "and so on.",
        at_least(MIN_FILE_BYTES),
        importance=LOW,
    ),
    setting(
        AUDIT_FILES_MAX,
        INT,
        10,
        "The maximum number of audit files, including the current one; the oldest is deleted.",
        between(1, 1_000),
        importance=LOW,
    ),
)


class AuditFileSettings(NamedTuple):
    """The path of the audit log, and the limits of its size and its number of files."""

    path: Path
    max_bytes: int
    max_files: int


def audit_file_settings(values: Mapping[str, ConfigValue]) -> AuditFileSettings | None:
    """Return the settings of the audit file; None if there is none."""
    path = values[AUDIT_FILE]
    if not path:
        return None
    max_bytes, max_files = values[AUDIT_FILE_MAX_BYTES], values[AUDIT_FILES_MAX]
    assert isinstance(max_bytes, int) and isinstance(max_files, int)
    return AuditFileSettings(Path(str(path)), max_bytes, max_files)
