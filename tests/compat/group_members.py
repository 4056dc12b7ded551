"""Processes that run members of groups, with any client.

A process reads commands as lines, and writes events as lines of JSON; GroupMembers.java describes both.
`kill` makes all members of a process crash.
"""

import contextlib
import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.compat.group_history import GroupHistory

# Members of the classic protocol learn of a rebalance from their heartbeats.
QUICK = {"heartbeat.interval.ms": "300", "session.timeout.ms": "6000"}


class Members:
    """A process with members of groups; each event is noted in the history of its group."""

    def __init__(self, command: Sequence[str], bootstrap: str, log: Path) -> None:
        self._bootstrap = bootstrap
        # A name may be used again, so the process knows each member by a number too.
        self._started: dict[
            str, tuple[GroupHistory, str]
        ] = {}  # name in the process -> history, and name there
        self._living: dict[str, str] = {}  # name -> name in the process
        self._log = log.open("wb")
        self.process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            history, name = self._started[event["member"]]
            history.note({**event, "member": name})

    def start_member(
        self, name: str, history: GroupHistory, group: str, topics: str, settings: Mapping[str, str]
    ) -> None:
        """Start a member under a name that no living member of this process has.

        Settings have their names in Java's client.
        """
        every = {"bootstrap.servers": self._bootstrap, "group.id": group}
        every |= QUICK if settings.get("group.protocol") != "consumer" else {}
        every |= settings
        there = self._living[name] = f"{name}.{len(self._started)}"
        self._started[there] = history, name
        self._send("start", there, topics, *(f"{key}={value}" for key, value in every.items()))

    def begin_to_close(self, name: str) -> None:
        """Make a member leave, without waiting."""
        self._send("close", self._living.pop(name))

    def close(self, *names: str) -> None:
        """Make members leave, and wait until they have left."""
        histories = [self._started[self._living[name]][0] for name in names]
        for name in names:
            self.begin_to_close(name)
        for name, history in zip(names, histories, strict=True):
            history.wait(lambda history, name=name: name in history.closed, f"{name} has left")  # type: ignore[misc]

    def _send(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill the process with SIGKILL: no member leaves its group, and nothing more is committed."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        for there in self._living.values():
            history, name = self._started[there]
            history.crashed([name])
        self._living.clear()
        for stream in (self.process.stdin, self.process.stdout, self._log):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class MembersOfOneHistory:
    """The members of a process whose groups are noted in one history."""

    def __init__(self, members: Members, history: GroupHistory, bootstrap: str) -> None:
        self._members, self._history, self._bootstrap = members, history, bootstrap
        self._names: set[str] = set()  # of the living members

    def start(self, name: str, group: str, topics: str, **config: str) -> None:
        """Start a member; underscores in the names of settings stand for dots."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        settings["bootstrap.servers"] = self._bootstrap
        self._members.start_member(name, self._history, group, topics, settings)
        self._names.add(name)

    def close(self, *names: str) -> None:
        """Make members leave (all, if none is named), and wait until they have left."""
        leaving = names or tuple(sorted(self._names))
        self._names.difference_update(leaving)
        self._members.close(*leaving)

    def kill(self) -> None:
        """Kill the process with SIGKILL: no member leaves its group, and nothing more is committed."""
        self._names.clear()
        self._members.kill()
