"""Hosts on one machine: each is a network namespace, on a bridge that the test also reaches.

A link can be cut like a cable: no connection is refused, but packets do not arrive. Needs root and iproute2.
"""

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

# The network of this bridge, which nothing else on the machine reaches; test runs have different ones.
NETWORK = f"10.199.{os.getpid() % 254 + 1}"
# The kernel removes the links of a network later, so the next network of this process has different names.
_networks = itertools.count()
UNREACHABLE_MAC = "02:00:00:00:00:99"  # a hardware address that no interface has


def hosts_unavailable_reason() -> str | None:
    """Return why no namespaces can be made here; None if they can."""
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    if shutil.which("ip") is None:
        return "ip is not installed: install iproute2"
    probe = f"probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"no network namespace can be made here: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", probe], check=True)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A network namespace, its address, and its link to the bridge."""

    name: str
    address: str
    link: str  # the name of its end at the bridge

    @property
    def prefix(self) -> Sequence[str]:
        """The prefix of a command that is to run on this host."""
        return ("ip", "netns", "exec", self.name)

    def isolate(self) -> None:
        """Set the link down: from now on packets from and to this host are lost."""
        ip("link", "set", self.link, "down")

    def join(self) -> None:
        """Set the link up again."""
        ip("link", "set", self.link, "up")

    def stop_sending_to(self, other: "Host") -> None:
        """Cut one direction: packets from this host to `other` are lost, those in return are not."""
        self._ip(
            "neighbor", "replace", other.address, "lladdr", UNREACHABLE_MAC, "dev", "eth0", "nud", "permanent"
        )

    def send_again_to(self, other: "Host") -> None:
        self._ip("neighbor", "delete", other.address, "dev", "eth0")

    def _ip(self, *arguments: str) -> None:
        ip("-n", self.name, *arguments)


class Network:
    """A bridge and the hosts on it; each host gets an address that no host had before."""

    def __init__(self) -> None:
        self._tag = (os.getpid() * 10 + next(_networks)) % 100_000
        self._made = 0
        self.hosts: list[Host] = []

    @property
    def bridge(self) -> str:
        return f"br{self._tag}"

    def begin(self) -> None:
        ip("link", "add", self.bridge, "type", "bridge")
        ip("address", "add", f"{NETWORK}.1/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")

    def end(self) -> None:
        for host in list(self.hosts):
            self.remove(host)
        ip("link", "delete", self.bridge)

    def add(self) -> Host:
        """Add a host."""
        index = self._made
        self._made += 1
        host = Host(
            name=f"h{self._tag}-{index}", address=f"{NETWORK}.{index + 2}", link=f"v{self._tag}-{index}"
        )
        ip("netns", "add", host.name)
        self.hosts.append(host)
        ip("link", "add", host.link, "type", "veth", "peer", "name", "eth0", "netns", host.name)
        ip("link", "set", host.link, "master", self.bridge)
        ip("link", "set", host.link, "up")
        for arguments in (
            ("address", "add", f"{host.address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            ip("-n", host.name, *arguments)
        return host

    def remove(self, host: Host) -> None:
        """Remove a host, whose address then does not answer."""
        self.hosts.remove(host)
        subprocess.run(["ip", "netns", "delete", host.name], check=False)


@contextmanager
def network() -> Iterator[Network]:
    """Make a network without hosts; remove it at the end, with all its hosts."""
    made = Network()
    made.begin()
    try:
        yield made
    finally:
        made.end()


@contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """Make a network with this number of hosts; remove it at the end."""
    with network() as made:
        yield [made.add() for _ in range(count)]


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr.strip()}"
