"""Runs `python -m ottla` by forking a process that has imported it, for the nodes and commands of the tests.

Otherwise each would first import the same modules, which takes longer than most tests of it. One process of a
test run imports them, and forks at every `popen`. The result is a child process of the test like any other,
with arguments, environment, directory and open files of its own, which can be killed, paused and waited for.
The start of a new Python is tested in test_local_cluster.py and test_pages.py of tests/integration, in
tests/chaos on hosts and disks of their own, and in tests/k8s.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MAX_REQUEST_BYTES = 200_000  # of arguments and environment; a socket accepts more at once
# A forked process writes its arguments over those of this process; this reserves enough space for them.
ROOM_FOR_ARGUMENTS = "-" * 32_000
NOT_OF_A_NODE = ("ottla.node.embedded", "ottla.node.embedded.network")
PR_SET_CHILD_SUBREAPER = 36


def popen(command: "Sequence[str | os.PathLike[str]]", **options: Any) -> "subprocess.Popen[Any]":
    """Start a command like `subprocess.Popen`; `python -m ottla` is forked, other commands are started."""
    words = [os.fspath(word) for word in command]
    return Forked(words, **options) if _is_ottla(words) else subprocess.Popen(words, **options)


def _is_ottla(words: Sequence[str]) -> bool:
    """Return True if the command is `python -m ottla`, with or without the current folder on its path."""
    begins = ([sys.executable, "-P", "-m", "ottla"], [sys.executable, "-m", "ottla"])
    return any(words[: len(begin)] == begin for begin in begins)


class Forked(subprocess.Popen[Any]):
    """A `Popen` that forks the process instead of starting it."""

    def _execute_child(
        self,
        args: Any,
        executable: Any,
        preexec_fn: Any,
        close_fds: Any,
        pass_fds: Any,
        cwd: Any,
        env: Any,
        startupinfo: Any,
        creationflags: Any,
        shell: Any,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        restore_signals: Any,
        gid: Any,
        gids: Any,
        uid: Any,
        umask: Any,
        start_new_session: bool,
        *_: Any,
    ) -> None:
        request = {
            "command": args,
            "directory": os.fspath(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
            "is_leader": start_new_session,
        }
        files = [given if given >= 0 else ours for ours, given in enumerate((p2cread, c2pwrite, errwrite))]
        self.pid = _fork(request, files)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


# ---- in the process of the tests -----------------------------------------------------------------

_one_at_a_time = threading.Lock()
_parents: list[socket.socket] = []


def _fork(request: dict[str, Any], files: list[int]) -> int:
    """Return the process id of a new child process."""
    with _one_at_a_time:
        channel = _parents[0] if _parents else _start_parent()
        # The parent of the new process exits at once, so that we adopt the orphan and become its parent.
        _adopt_orphans(True)
        try:
            socket.send_fds(channel, [json.dumps(request).encode()], files)
            pid, word = channel.recv(20), channel.recv(20)
            assert word == b"born", "the process that forks nodes is gone"
            return int(pid)
        finally:
            _adopt_orphans(False)


def _start_parent() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        parent = subprocess.Popen(
            [sys.executable, "-m", "tests.node_fork", str(theirs.fileno()), ROOM_FOR_ARGUMENTS],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C must reach only the tests, which end their processes
        )

    def end() -> None:
        ours.close()
        parent.wait()

    atexit.register(end)
    _parents.append(ours)
    return ours


def _adopt_orphans(wanted: bool) -> None:
    done = ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)
    assert done == 0, os.strerror(ctypes.get_errno())


# ---- the process that forks ----------------------------------------------------------------------


def main(channel: socket.socket) -> None:
    """Fork for each request; returns in each child, set up as the requested process."""
    import ottla.node

    for found in pkgutil.walk_packages(ottla.node.__path__, "ottla.node."):
        if found.name not in NOT_OF_A_NODE:
            importlib.import_module(found.name)
    _preload_commands()
    gc.freeze()  # a collection would touch and so copy shared pages
    while True:
        request, files, _, _ = socket.recv_fds(channel, MAX_REQUEST_BYTES, 3)
        if not request:
            os._exit(0)
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid == 0:
                channel.close()
                return _become(json.loads(request), files)
            channel.send(str(pid).encode())
            os._exit(0)
        for file in files:
            os.close(file)
        os.waitpid(between, 0)
        channel.send(b"born")


def _preload_commands() -> None:
    """Run a command that fails, because libraries import further modules at their first use."""
    from ottla.node.cli.app import main

    sys.argv = ["ottla", "topic", "create", "--partitions", "1", "--replicas", "none"]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        assert main() != 0


def _become(request: dict[str, Any], files: list[int]) -> None:
    """Take the files, session, directory, environment and arguments of the requested process."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    if request["is_leader"]:
        os.setsid()
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    _write_cmdline(request["command"])
    sys.argv = ["", *request["command"][request["command"].index("ottla") + 1 :]]


def _write_cmdline(words: list[str]) -> None:
    """Write the arguments to /proc/PID/cmdline, by which nodes are recognised."""
    text = b"".join(os.fsencode(word) + b"\0" for word in words)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # proc(5): arg_start and arg_end
    assert len(text) < end - start, "too many arguments"
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, text, len(text))


def run() -> int:
    """Run `python -m ottla`; return its exit code."""
    try:
        runpy.run_module("ottla", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def end(code: int) -> None:
    """Exit as Python does, but without tearing down the modules, which the parent process has loaded."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
    end(run())
