"""Raises the limit of open files of a node's process."""

import resource
from typing import Final

# Three files per partition, one per connection; the kernel's hard limit may be lower.
WANTED_OPEN_FILES: Final = 1_048_576


def raise_open_file_limit() -> None:
    """Raise the soft limit of open files to `WANTED_OPEN_FILES`, or to the hard limit if that is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_OPEN_FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
