"""Processes with members of groups, whatever client they are made of.

They are told by lines and tell by lines of JSON; GroupMembers.java has the words. `kill` lets all members of
a process crash.
"""

import contextlib
import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.compat.group_story import Story

# Members of the classic protocol hear of a rebalance when they heartbeat.
QUICK = {"heartbeat.interval.ms": "300", "session.timeout.ms": "6000"}


class Members:
    """A process whose members tell their groups' stories."""

    def __init__(self, command: Sequence[str], bootstrap: str, log: Path) -> None:
        self._bootstrap = bootstrap
        # A name may come again: the process knows each member by a number, too.
        self._told: dict[str, tuple[Story, str]] = {}  # there -> its story, and its name in it
        self._living: dict[str, str] = {}  # name -> there
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
        """A new member, named as no living one of this process; settings by the names of Java's client."""
        every = {"bootstrap.servers": self._bootstrap, "group.id": group}
        every |= QUICK if settings.get("group.protocol") != "consumer" else {}
        every |= settings
        there = self._living[name] = f"{name}.{len(self._told)}"
        self._told[there] = story, name
        self._say("start", there, topics, *(f"{key}={value}" for key, value in every.items()))

    def begin_to_close(self, name: str) -> None:
        """It is told to leave."""
        self._say("close", self._living.pop(name))

    def close(self, *names: str) -> None:
        """They leave; returns when they have."""
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
        """SIGKILL: nobody leaves, nothing is committed."""
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
    """Those of a process that are of one group, or of none that is told apart."""

    def __init__(self, members: Members, story: Story, bootstrap: str) -> None:
        self._members, self._story, self._bootstrap = members, story, bootstrap
        self._names: set[str] = set()  # of those that live

    def start(self, name: str, group: str, topics: str, **config: str) -> None:
        """A new member; underscores in the names of settings stand for dots."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        settings["bootstrap.servers"] = self._bootstrap
        self._members.start_member(name, self._story, group, topics, settings)
        self._names.add(name)

    def close(self, *names: str) -> None:
        """They leave, all if none is named; returns when they have."""
        leaving = names or tuple(sorted(self._names))
        self._names.difference_update(leaving)
        self._members.close(*leaving)

    def kill(self) -> None:
        """SIGKILL to the process: nobody leaves, nothing is committed."""
        self._names.clear()
        self._members.kill()
