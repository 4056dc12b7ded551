"""A PostgreSQL server for a test run: in a new directory, with a socket there and no port, then removed."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

DEBIAN: Final = Path("/usr/lib/postgresql")
USER: Final = "postgres"  # of Debian's package: PostgreSQL does not start as root
TIMEOUT_S: Final = 120


def find_programs() -> Path | None:
    """Return the folder of initdb and pg_ctl of the newest version; Debian keeps them out of the path."""
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    elsewhere = shutil.which("initdb")
    return None if elsewhere is None else Path(elsewhere).resolve().parent


class PostgresqlServer:
    """A server that is created and started; `url` and `user` are for its clients."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._directory = Path(tempfile.mkdtemp(prefix="ottla-postgresql-"))
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam(USER)
            os.chown(self._directory, account.pw_uid, account.pw_gid)
            self._as = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self.user = USER
        self.url = f"postgresql:///postgres?host={self._directory}"
        self._data = self._directory / "data"
        self._run("initdb", "--pgdata", str(self._data), "--username", USER, "--auth", "trust", "--no-sync")
        self.start()

    def start(self) -> None:
        """Start it; return when it accepts connections."""
        options = f"-c listen_addresses='' -c unix_socket_directories='{self._directory}' -c fsync=off"
        log = str(self._directory / "log")
        self._run(
            "pg_ctl", "start", "--wait", "--pgdata", str(self._data), "--log", log, "--options", options
        )

    def stop(self) -> None:
        """Stop it immediately, which cuts every connection."""
        self._run("pg_ctl", "stop", "--mode", "immediate", "--pgdata", str(self._data))

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._directory)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, *arguments],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._directory,
            timeout=TIMEOUT_S,
            **self._as,
        )
