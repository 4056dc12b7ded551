"""A file system whose power a test can cut: data that were not synced are lost, as on a real machine.

An ext4 image on a loop device is shut down by the ioctl of file system tests (`godown`): from then on nothing
reaches the device, not even the journal. Data that were written but not synced exist only in memory, and are
lost when the image is mounted again. Needs root and loop devices.
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
UNMOUNT_TIMEOUT_S: Final = 60
# After a loss of power the kernel has another boot id. A command with this prefix reads it from a file of the
# disk, which is mounted over the kernel's.
BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
MOUNT_BOOT_ID: Final = f'mount --bind "$0" {BOOT_ID} && exec "$@"'


class PoweredDisk:
    """A mounted image of a disk, whose power a test can cut; `restore` then mounts it again."""

    def __init__(self, image: Path, directory: Path) -> None:
        self._image = image
        self._boot_id = image.with_suffix(".boot_id")
        self.directory = directory
        self._boot()

    @property
    def prefix(self) -> Sequence[str]:
        """The prefix of a command that is to run as on its own host, which boots after a loss of power."""
        # Slave: a file system that the test unmounts is unmounted there, too.
        return ("unshare", "--mount", "--propagation", "slave", "sh", "-c", MOUNT_BOOT_ID, str(self._boot_id))

    def _boot(self) -> None:
        self._boot_id.write_text(f"{uuid.uuid4()}\n")

    def mount(self) -> None:
        run("mount", "-o", "loop", str(self._image), str(self.directory))

    def lose_power(self) -> None:
        """Stop all writes to the disk; from now on each write or sync fails with an I/O error."""
        descriptor = os.open(self.directory, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING_THE_JOURNAL))
        finally:
            os.close(descriptor)

    def restore(self) -> None:
        """Mount the disk again, with the data that are on it; no process may have files open there."""
        self.unmount()
        self._boot()
        self.mount()

    def unmount(self) -> None:
        """Unmount the image, and wait until the kernel has released it.

        The mounts of a process that ends may delay that. A mount before it would show the dead file system.
        """
        run("umount", str(self.directory))
        deadline = time.monotonic() + UNMOUNT_TIMEOUT_S
        while listed := subprocess.run(
            ["losetup", "-j", str(self._image)], capture_output=True, text=True
        ).stdout:
            assert time.monotonic() < deadline, f"the disk is still in use: {listed}"
            time.sleep(0.01)


def disks_unavailable_reason() -> str | None:
    """Return why no file system can be made, mounted and shut down here; None if it can."""
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
    """Make an empty disk under `folder`; remove it at the end."""
    image, mount_root = folder / "disk.img", folder / "bay"
    directory = mount_root / "disk"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    run("mkfs.ext4", "-q", str(image))
    mount_root.mkdir()
    # Processes of other tests have copies of this machine's mounts. An unmount below a shared mount reaches
    # these copies, too.
    run("mount", "--bind", str(mount_root), str(mount_root))
    run("mount", "--make-shared", str(mount_root))
    directory.mkdir()
    disk = PoweredDisk(image, directory)
    try:
        disk.mount()
        try:
            yield disk
        finally:
            disk.unmount()
    finally:
        run("umount", str(mount_root))


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"
