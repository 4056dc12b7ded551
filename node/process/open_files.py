"""How many files the process of a node may open."""

import resource
from typing import Final

# Three files a partition, one a connection; the kernel's hard limit may be less.
WANTED_OPEN_FILES: Final = 1_048_576


def raise_open_file_limit() -> None:
    """Allow as many open files as the kernel lets this process have: three a partition, one a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_OPEN_FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
