"""A Python for Spark whose processes are forks of one that has imported their common modules.

Spark starts one for each stream that is read, and has others fork workers that import by themselves: half a
second of processor time each, some hundreds of times in a run. `warm_python` gives a program for
`PYSPARK_PYTHON`, which hands its arguments, environment and streams to a server and ends as the fork does.
"""

import contextlib
import gc
import importlib
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
STREAMS: Final = (0, 1, 2)
LENGTH_BYTES: Final = 4
# It starts in 10 ms without `site` and the library's wrapper of sockets.
CLIENT: Final = """#!{python} -SE
import _socket, posix, sys
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
arguments = [argument.encode(errors="surrogateescape") for argument in sys.argv[1:]]
environment = [b"=".join(item) for item in posix.environ.items()]
request = b"\\0".join([posix.getcwdb(), b"%d" % len(arguments), *arguments, *environment])
streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in {streams})
rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)
server.sendmsg([len(request).to_bytes({length_bytes}, "big")], [rights])
server.sendall(request)
code = server.recv(1)
posix._exit(code[0] if code else 1)
"""
MODULES: Final = (
    "pandas",
    "pyarrow.compute",
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
    "pyspark_ottla",
    "ottla.pipeline.spark.batch_reader",
    "ottla.pipeline.spark.batch_writer",
    "ottla.pipeline.spark.sink_task",
    "ottla.pipeline.spark.stream_reader",
    "ottla.pipeline.spark.stream_writer",
)


@contextlib.contextmanager
def warm_python() -> Iterator[str]:
    """Yield the program while the server runs; its forks end by themselves, as ordinary workers do."""
    with tempfile.TemporaryDirectory() as folder:
        program, address = Path(folder, "python"), f"{folder}/socket"
        program.write_text(
            CLIENT.format(python=sys.executable, address=address, streams=STREAMS, length_bytes=LENGTH_BYTES)
        )
        program.chmod(0o700)
        # Its standard input ends with this process, however that ends.
        with subprocess.Popen(
            [sys.executable, "-u", "-m", __name__, address],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        ) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"READY\n"
            yield str(program)


def serve(address: str) -> None:
    """Serve until the standard input ends, with two forks per client: one runs, one waits for it."""
    import pyspark.sql.worker

    for module in pkgutil.iter_modules(pyspark.sql.worker.__path__, "pyspark.sql.worker."):
        importlib.import_module(module.name)
    for name in MODULES:
        importlib.import_module(name)
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(128)
    print("READY", flush=True)
    waiting: set[int] = set()
    while True:
        readable, _, _ = select.select([sys.stdin, listener], [], [])
        if sys.stdin in readable:
            return
        client, _ = listener.accept()
        beside = os.fork()
        if beside == 0:
            listener.close()
            answer(client)
        client.close()
        waiting = {pid for pid in (*waiting, beside) if os.waitpid(pid, os.WNOHANG) == (0, 0)}


def answer(client: socket.socket) -> None:
    """Fork the requested process, kill it if the client ends, and report how it ended."""
    head, streams, _, _ = socket.recv_fds(client, LENGTH_BYTES, len(STREAMS))
    request = client.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL).split(b"\0")
    child = os.fork()
    if child == 0:
        client.close()
        folder, count, *words = request
        arguments, environment = words[: int(count)], words[int(count) :]
        os.chdir(folder)
        os.environb.clear()
        os.environb.update(dict(item.split(b"=", 1) for item in environment))
        become([os.fsdecode(argument) for argument in arguments], streams)
    for stream in (*STREAMS, *streams):
        os.close(stream)
    ended = os.pidfd_open(child)
    readable, _, _ = select.select([client, ended], [], [])
    if client in readable:
        signal.pidfd_send_signal(ended, signal.SIGTERM)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):
        client.send(bytes([code if code >= 0 else 128 - code]))
    os._exit(0)


def become(arguments: list[str], streams: list[int]) -> None:
    """Become the requested process: `-m MODULE ...` here, any other in a Python of its own."""
    for stream, number in zip(streams, STREAMS, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    if arguments[:1] != ["-m"]:
        os.execv(sys.executable, [sys.executable, *arguments])
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    # Spark's archives have what is imported already (`ottla.pipeline.spark.worker_python`).
    sys.path[:0] = [os.getcwd(), *(part for part in given if "/pyspark/python/lib/" not in part)]
    sys.argv = arguments[1:]
    sys.modules.pop(arguments[1], None)  # it must be run, not be found as imported
    code = 1
    try:
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(*sys.argv[1:])
