"""The memory limit of this process: the lowest limit of the machine and the cgroups around the process.

In a container that is the container's limit. Both versions of cgroups are read: older clusters still have 1.
"""

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path("/")
# A file of one line, or one line for each hierarchy of version 1.
_MAX_BYTES: Final = 64 * 1024


def memory_limit_bytes(root: Path = ROOT) -> int:
    """Return the limit of this process in bytes; /proc and /sys are below `root`."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(physical, *_cgroup_limits(root))


def _cgroup_limits(root: Path) -> list[int]:
    """Return the limits of the process's cgroups and their parents, at least one number."""
    limits = [2**63 - 1]
    for line in _text(root / "proc/self/cgroup").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        hierarchy, controllers, path = parts
        if hierarchy == "0" and not controllers:
            limits += _limits_above(root / "sys/fs/cgroup", path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits_above(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")
    return limits


def _limits_above(mount: Path, path: str, name: str) -> list[int]:
    """Return the limits of a cgroup and its parents, without "max", which means no limit.

    In a container the path may be the host's while the mount is the container's own cgroup.
    """
    steps = [step for step in path.split("/") if step not in ("", ".", "..")]
    folders = [mount.joinpath(*steps[:count]) for count in range(len(steps) + 1)]
    texts = [_text(folder / name).strip() for folder in folders]
    return [int(text) for text in texts if text.isdecimal() and int(text) > 0]


def _text(path: Path) -> str:
    """Return the beginning of a small file, or "" if it is not readable."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""
