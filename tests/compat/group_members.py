"""Processes that run members of groups, with any client.

Commands go in as lines, and events come out as lines of JSON; GroupMembers.java describes both. `kill` makes
all members of a process crash.
"""

import contextlib
import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.compat.group_story import Story

# Members of the classic protocol learn of a rebalance from their heartbeats.
QUICK = {"heartbeat.interval.ms": "300", "session.timeout.ms": "6000"}


class Members:
    """A process with members of groups; each event is noted in the history of its group."""

    def __init__(self, command: Sequence[str], bootstrap: str, log: Path) -> None:
        self._bootstrap = bootstrap
        # A name may be used again, so the process knows each member by a number too.
        self._told: dict[str, tuple[Story, str]] = {}  # name in the process -> history, and name there
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
            told = json.loads(line)
            story, name = self._told[told["member"]]
            story.note({**told, "member": name})

    def start_member(
        self, name: str, story: Story, group: str, topics: str, settings: Mapping[str, str]
    ) -> None:
        """Start a member under a name that no living member of this process has.

        Settings have their names in Java's client.
        """
        every = {"bootstrap.servers": self._bootstrap, "group.id": group}
        every |= QUICK if settings.get("group.protocol") != "consumer" else {}
        every |= settings
        there = self._living[name] = f"{name}.{len(self._told)}"
        self._told[there] = story, name
        self._say("start", there, topics, *(f"{key}={value}" for key, value in every.items()))

    def begin_to_close(self, name: str) -> None:
        """Make a member leave, without waiting."""
        self._say("close", self._living.pop(name))

    def close(self, *names: str) -> None:
        """Make members leave, and wait until they have left."""
        stories = [self._told[self._living[name]][0] for name in names]
        for name in names:
            self.begin_to_close(name)
        for name, story in zip(names, stories, strict=True):
            story.wait(lambda story, name=name: name in story.closed, f"{name} has left")  # type: ignore[misc]

    def _say(self, *words: str) -> None:
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
            story, name = self._told[there]
            story.crashed([name])
        self._living.clear()
        for stream in (self.process.stdin, self.process.stdout, self._log):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class MembersOfOneStory:
    """The members of a process whose groups are noted in one history."""

    def __init__(self, members: Members, story: Story, bootstrap: str) -> None:
        self._members, self._story, self._bootstrap = members, story, bootstrap
        self._names: set[str] = set()  # of the living members

    def start(self, name: str, group: str, topics: str, **config: str) -> None:
        """Start a member; underscores in the names of settings stand for dots."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        settings["bootstrap.servers"] = self._bootstrap
        self._members.start_member(name, self._story, group, topics, settings)
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
