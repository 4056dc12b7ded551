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
        self._stories: dict[str, Story] = {}
        self._names: list[str] = []  # of those that live
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
            self._stories[told["member"]].note(told)

    def start_member(
        self, name: str, story: Story, group: str, topics: str, settings: Mapping[str, str]
    ) -> None:
        """A new member, whose name no other of this process has; settings by the names of Java's client."""
        every = {"bootstrap.servers": self._bootstrap, "group.id": group}
        every |= QUICK if settings.get("group.protocol") != "consumer" else {}
        every |= settings
        self._names.append(name)
        self._stories[name] = story
        self._say("start", name, topics, *(f"{key}={value}" for key, value in every.items()))

    def begin_to_close(self, name: str) -> None:
        """It is told to leave."""
        self._say("close", name)
        self._names.remove(name)

    def close(self, name: str) -> None:
        """It leaves; returns when it has."""
        self.begin_to_close(name)
        self._stories[name].wait(lambda story: name in story.closed, f"{name} has left")

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
        for name in self._names:
            self._stories[name].crashed([name])
        self._names.clear()
        for stream in (self.process.stdin, self.process.stdout, self._log):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class MembersOfOneStory:
    """A process whose members are all of one group, or of none that is told apart; `kill` lets them crash."""

    def __init__(self, command: Sequence[str], story: Story, bootstrap: str, log: Path) -> None:
        self._story = story
        self._members = Members(command, bootstrap, log)

    def start(self, name: str, group: str, topics: str, **config: str) -> None:
        """A new member; underscores in the names of settings stand for dots."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self._members.start_member(name, self._story, group, topics, settings)

    def close(self, name: str) -> None:
        """It leaves; returns when it has."""
        self._members.close(name)

    def kill(self) -> None:
        """SIGKILL: nobody leaves, nothing is committed."""
        self._members.kill()
