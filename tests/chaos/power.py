"""A file system that loses its power: what was not synced is gone, as from a disk whose machine went dark.

An ext4 image on a loop device, shut down by the ioctl that file systems are tested with (`godown`): from then
on nothing reaches the device, not even the journal. What programs have written and not synced lies in memory
only, and is gone when the image is mounted again. Needs root and loop devices.
"""

import fcntl
import os
import shutil
import struct
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

IMAGE_BYTES: Final = 512 << 20
SHUTDOWN: Final = 0x8004587D  # EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32)
WITHOUT_FLUSHING_THE_JOURNAL: Final = 2
LET_GO_S: Final = 60


# A kernel that has lost its power names its next boot otherwise; nodes that begin so see what this file says.
BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
SEES_BOOT_ID: Final = f'mount --bind "$0" {BOOT_ID} && exec "$@"'


class PoweredDisk:
    """A mounted image; `lose_power`, then `restore`."""

    def __init__(self, image: Path, directory: Path) -> None:
        self._image = image
        self._boot_id = image.with_suffix(".boot_id")
        self.directory = directory
        self._boot()

    @property
    def prefix(self) -> Sequence[str]:
        """What runs a command as on a host of its own, which is booted anew when the power is back."""
        # What the test unmounts is unmounted there, too.
        return ("unshare", "--mount", "--propagation", "slave", "sh", "-c", SEES_BOOT_ID, str(self._boot_id))

    def _boot(self) -> None:
        self._boot_id.write_text(f"{uuid.uuid4()}\n")

    def mount(self) -> None:
        run("mount", "-o", "loop", str(self._image), str(self.directory))

    def lose_power(self) -> None:
        """Nothing reaches the disk from here on; whoever writes or syncs is told of an I/O error."""
        descriptor = os.open(self.directory, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING_THE_JOURNAL))
        finally:
            os.close(descriptor)

    def restore(self) -> None:
        """Begin again with what is on the disk; nobody may have files open there."""
        self.unmount()
        self._boot()
        self.mount()

    def unmount(self) -> None:
        """Until the kernel has let go of it, which the end of a process's mounts may delay: who mounts
        before that gets the dead file system again."""
        run("umount", str(self.directory))
        deadline = time.monotonic() + LET_GO_S
        while listed := subprocess.run(
            ["losetup", "-j", str(self._image)], capture_output=True, text=True
        ).stdout:
            assert time.monotonic() < deadline, f"the disk is still in use: {listed}"
            time.sleep(0.01)


def why_no_disks() -> str | None:
    """Why no file system can be made, mounted and shut down here, or None."""
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    for program, package in (
        ("mkfs.ext4", "e2fsprogs"),
        ("losetup", "mount"),
        ("umount", "mount"),
        ("unshare", "util-linux"),
    ):
        if shutil.which(program) is None:
            return f"{program} is not installed: install {package}"
    free = subprocess.run(["losetup", "--find"], capture_output=True, text=True, check=False)
    return f"there is no loop device: {free.stderr.strip()}" if free.returncode else None


@contextmanager
def powered_disk(folder: Path) -> Iterator[PoweredDisk]:
    """An empty disk under `folder`, gone at the end."""
    image, bay = folder / "disk.img", folder / "bay"
    directory = bay / "disk"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    run("mkfs.ext4", "-q", str(image))
    bay.mkdir()
    # Processes of other tests have copies of this machine's mounts: what is unmounted in a shared one goes
    # there, too.
    run("mount", "--bind", str(bay), str(bay))
    run("mount", "--make-shared", str(bay))
    directory.mkdir()
    disk = PoweredDisk(image, directory)
    try:
        disk.mount()
        try:
            yield disk
        finally:
            disk.unmount()
    finally:
        run("umount", str(bay))


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"
