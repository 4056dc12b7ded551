"""A container made by hand, as a runtime makes one: with its own network, processes, host name and files.

Of this machine it has the system's libraries, this Python and this checkout, all read-only. Its user has no
capabilities and cannot get any. Needs root, util-linux and iproute2.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.chaos.hosts import Host, hosts_unavailable_reason
from tests.k8s.rendered import ROOT

PROGRAMS = ("unshare", "nsenter", "setpriv", "chroot", "mount")
# As in the image (k8s/Dockerfile).
IMAGE_PATH = "/opt/ottla/bin:/usr/local/bin:/usr/bin:/bin"
FORK_TIMEOUT_S = 60
_SETUP = r"""
root=$1 name=$2 user=$3 etc=$4 data=$5 at=$6 shim=$7; shift 7
hostname "$name"
mount -t tmpfs -o mode=0755,size=1m tmpfs "$root"
cd "$root"
mkdir -p proc dev etc opt/ottla/bin ".$at"
for link in bin lib lib64 sbin; do ln -s "usr/$link" "$link"; done
while [ "$1" != -- ]; do
  mkdir -p ".$1"
  mount --bind "$1" ".$1"
  mount -o remount,bind,ro ".$1"
  shift
done
shift
for device in null zero random urandom; do
  touch "dev/$device"
  mount --bind "/dev/$device" "dev/$device"
done
mount -t proc proc proc
mount --bind "$etc" etc
mount -o remount,bind,ro etc
mount --bind "$data" ".$at"
install -m 755 "$shim" opt/ottla/bin/ottla
mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs \
  --bounding-set=-all --inh-caps=-all -- "$@"
"""


def why_no_containers() -> str | None:
    """Return why no container can be made here; None if one can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed: install util-linux"
    if not Path("/bin").is_symlink():
        return "this system keeps /bin apart from /usr/bin"
    return hosts_unavailable_reason()


class Container:
    """A process, and commands run beside it, on a host. Its output goes to a file."""

    def __init__(
        self,
        folder: Path,
        *,
        host: Host,
        name: str,
        user: int,
        etc: Path,
        volume: Path,
        volume_path: str,
        environment: Mapping[str, str],
        command: Sequence[str],
        program: Sequence[str] = (sys.executable, "-m", "ottla"),
        sees: Sequence[Path] = (),
        sees_checkout: bool = True,
    ) -> None:
        """Start a container. `program` is its command `ottla`, `sees` has more folders, `etc` is its /etc."""
        folder.mkdir(parents=True, exist_ok=True)
        root, shim = folder / "root", folder / "ottla"
        root.mkdir(exist_ok=True)
        volume.mkdir(parents=True, exist_ok=True)
        os.chown(volume, 0, user)
        volume.chmod(0o2770)  # as with fsGroup
        words = " ".join(f"'{word}'" for word in program)
        path = ROOT if sees_checkout else ""
        shim.write_text(f'#!/bin/sh\nexport PYTHONPATH={path}\nexec {words} "$@"\n')
        self.log = folder / "log"
        self.name, self._user = name, user
        self._environment = {
            "PATH": IMAGE_PATH,
            "HOSTNAME": name,
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
        }
        own = [Path(sys.base_prefix), *([Path(sys.prefix), ROOT] if sees_checkout else [])]
        seen = ["/usr", *_disjoint([*own, *sees])]
        setup = [root, name, user, etc, volume, volume_path, shim, *seen, "--"]
        with self.log.open("ab") as log:
            self._outer = subprocess.Popen(
                [
                    *("nsenter", f"--net=/run/netns/{host.name}"),
                    *("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child=SIGKILL"),
                    *("sh", "-euc", _SETUP, "setup", *map(str, setup), *self._run_with(command)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid = self._inner_pid()

    def _inner_pid(self) -> int:
        """Return the process id on this machine of the container's first process."""
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children")
        deadline = time.monotonic() + FORK_TIMEOUT_S
        while time.monotonic() < deadline:
            found = children.read_text().split()
            if found:
                return int(found[0])
            assert self._outer.poll() is None, self.output()
            time.sleep(0.01)
        raise AssertionError(f"{self.name} did not start: {self.output()}")

    def _run_with(self, command: Sequence[str]) -> list[str]:
        return [
            "/usr/bin/env",
            "-i",
            *(f"{key}={value}" for key, value in self._environment.items()),
            *command,
        ]

    # ---- operations of a kubelet -------------------------------------------------------------------

    def run(self, command: Sequence[str], timeout_s: float) -> "subprocess.CompletedProcess[str]":
        """Run a command in it, as `kubectl exec` does."""
        enter = [
            "nsenter",
            f"--target={self.pid}",
            "--net",
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
            "--root",
            "--wd",
        ]
        user = str(self._user)
        drop = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs"]
        drop += ["--bounding-set=-all", "--inh-caps=-all", "--"]
        return subprocess.run(
            [*enter, *drop, *self._run_with(command)],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    @property
    def is_running(self) -> bool:
        return self._outer.poll() is None

    def wait(self, timeout_s: float) -> int:
        """Wait for its end and return the exit code; TimeoutExpired if it does not end."""
        return self._outer.wait(timeout_s)

    def kill(self) -> None:
        """Kill all its processes at once, and wait until they are gone."""
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)  # its other processes end with the first
        self._outer.wait()

    def output(self) -> str:
        return self.log.read_text(errors="replace")


def _disjoint(folders: Iterable[Path]) -> list[str]:
    """Return the folders that are not inside another of them."""
    found = {one.resolve() for one in folders}
    known = (*found, Path("/usr"))
    return [
        str(one)
        for one in sorted(found)
        if not any(other != one and one.is_relative_to(other) for other in known)
    ]
