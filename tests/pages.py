"""Runs the pages of the documentation as a reader follows them, from an empty folder to the end.

A page is written for two terminals. `run_page` runs its blocks in order:

- `sh` is pasted into the second terminal, one shell for the whole page. A line that fails ends the page.
- `sh` whose last line is `ottla start` or `ottla cluster up` runs in a terminal of its own until Ctrl-C.
- A block with `title="FILE"` is saved as that file.
- `python` without a title is run as a program.
- `text` is the output of the block before it. `...` stands for any text, on its own line for any lines.

Comments before a block change that:

    <!-- not run: REASON -->      the block needs something that a test does not have
    <!-- exit code 1 -->          the last line exits with this code
    <!-- Ctrl-C -->               the last terminal with a running command gets Ctrl-C

Each page runs in network and process namespaces of its own, so it can use any port, reaches no network, and
leaves no process. By hand: `.venv/bin/python -m tests.pages docs/quickstart.md`.
"""

import argparse
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
BLOCK_TIMEOUT_S = 240.0
PAGE_TIMEOUT_S = 600.0
SERVER = re.compile(r"([A-Z_]+=\S* )*ottla (start|cluster up)\b")
READY = "READY"
NAMESPACES = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
# An error of the REST API ends the page, as a reader would stop there.
PRELUDE = """set -o pipefail
curl() { case " $* " in *" -sf "*) command curl "$@" ;; *) command curl --fail-with-body "$@" ;; esac; }
"""
_FENCE = re.compile(r"^(?P<indent> *)```(?P<head>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S)
_NOTE = re.compile(r"<!-- *(not run: .*?|exit code \d+|Ctrl-C) *-->", re.S)


class PageError(Exception):
    """An error that would stop a reader of the page, with its line and the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of code of a page, with the comments before it."""

    line: int
    language: str
    title: str | None
    text: str
    notes: tuple[str, ...]  # comments after the block before

    @property
    def is_run(self) -> bool:
        """True if a reader runs the block."""
        is_code = self.language in ("sh", "python") and self.title is None
        return is_code and self.reason_not_to_run is None

    @property
    def reason_not_to_run(self) -> str | None:
        """The reason why no test runs the block, or None."""
        found = (one.removeprefix("not run: ") for one in self.notes if one.startswith("not run: "))
        return next(found, None)

    @property
    def is_server(self) -> bool:
        """True if the block runs until Ctrl-C."""
        is_shell = self.is_run and self.language == "sh" and self.exit_code == 0
        return is_shell and SERVER.match(self.text.splitlines()[-1]) is not None

    @property
    def exit_code(self) -> int:
        """The exit code of the last line."""
        return next((int(one.split()[-1]) for one in self.notes if one.startswith("exit code")), 0)


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of code of a page, in order."""
    text = page.read_text()
    found, end = [], 0
    for match in _FENCE.finditer(text):
        language, _, attributes = match["head"].strip().partition(" ")
        title = re.search(r'title="([^"]+)"', attributes)
        indent = re.compile(f"^{match['indent']}", re.M)
        found.append(
            Block(
                line=text.count("\n", 0, match.start()) + 1,
                language=language,
                title=title[1] if title else None,
                text=indent.sub("", match["text"]),
                notes=tuple(" ".join(one.split()) for one in _NOTE.findall(text[end : match.start()])),
            )
        )
        end = match.end()
    return found


def page_blocks(name: str, language: str, *, title: str | None = None) -> list[str]:
    """Return the texts of a page's blocks with this language and title."""
    blocks = blocks_of(ROOT / name)
    return [one.text for one in blocks if one.language == language and one.title == title]


def missing_line(expected: str, printed: str) -> str | None:
    """Return the first line of `expected` that was not printed after the lines before it, or None."""
    lines = iter([" ".join(line.split()) for line in printed.splitlines()])
    for one in expected.splitlines():
        wanted = " ".join(one.split())
        if wanted in ("", "..."):
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in wanted.split("...")))
        if not any(pattern.fullmatch(line) for line in lines):
            return one
    return None


def why_no_namespaces() -> str | None:
    """Return the reason why no page can run here, or None."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return "unshare and ip are needed: install util-linux and iproute2"
    done = subprocess.run([*_namespaces(), "true"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"namespaces cannot be created here: {done.stderr.strip()}"


def missing_programs(page: Path) -> list[str]:
    """Return the programs that a page uses and this machine does not have."""
    code = "\n".join(one.text for one in blocks_of(page) if one.is_run and one.language == "sh")
    used = [name for name in ("curl", "kcat", "openssl") if re.search(rf"(^|[|(]\s*){name}\b", code, re.M)]
    return [name for name in used if shutil.which(name) is None]


def run_page(page: Path, folder: Path, *, shows: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a page in namespaces of its own; the output names the line that failed."""
    command = [*_namespaces(), sys.executable, "-m", "tests.pages", "--inside", *(["--show"] * shows)]
    kept = ("PATH", "LANG", "LC_ALL", "JAVA_HOME", "PYTHONPYCACHEPREFIX")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment |= {"HOME": str(folder), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*command, str(page), str(folder)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=None if shows else subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PAGE_TIMEOUT_S,
        check=False,
    )


def _namespaces() -> tuple[str, ...]:
    """Return the command that creates namespaces; users other than root need a user namespace for it."""
    return NAMESPACES if os.geteuid() == 0 else (NAMESPACES[0], "--map-root-user", *NAMESPACES[1:])


class Terminal:
    """A shell into which blocks are pasted one after the other."""

    def __init__(self, folder: Path, spool: Path) -> None:
        self._spool = spool
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=_reader_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._send(PRELUDE)

    def paste(self, block: Block) -> tuple[int, str]:
        """Run a block; return the exit code of its last or its failed line, and the output."""
        code, printed = self._spool / "block.sh", self._spool / "printed"
        code.write_text(block.text)
        strict = "set -e;" if block.exit_code == 0 else ""
        self._send(f"{strict} source {code} < /dev/null > {printed} 2>&1; echo $?; set +e\n")
        assert self._shell.stdout is not None
        if not select.select([self._shell.stdout], [], [], BLOCK_TIMEOUT_S)[0]:
            raise PageError(f"line {block.line}: not done after {BLOCK_TIMEOUT_S:.0f} s\n{_read(printed)}")
        answer = self._shell.stdout.readline()
        return int(answer) if answer else self._shell.wait(), _read(printed)

    def _send(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(text)
        self._shell.stdin.flush()


class Server:
    """A terminal in which a node or a cluster runs until Ctrl-C."""

    def __init__(self, block: Block, folder: Path, spool: Path) -> None:
        self._block = block
        self._printed = spool / f"server-{block.line}"
        with self._printed.open("w") as printed:
            self._process = subprocess.Popen(
                ["bash", "-ec", block.text],
                cwd=folder,
                env=_reader_environment(),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + BLOCK_TIMEOUT_S
        while READY not in self.printed:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise PageError(f"line {block.line}: it is not READY\n{self.printed}")
            time.sleep(0.02)

    @property
    def printed(self) -> str:
        """The output so far."""
        return _read(self._printed)

    def interrupt(self) -> None:
        """Press Ctrl-C and wait for the end; PageError if the exit code is not 0."""
        os.killpg(self._process.pid, signal.SIGINT)
        code = self._process.wait(BLOCK_TIMEOUT_S)
        if code != 0:
            raise PageError(f"line {self._block.line}: exit code {code} after Ctrl-C\n{self.printed}")


def follow(page: Path, folder: Path, out: IO[str]) -> None:
    """Run the blocks of a page in the namespaces of this process; PageError if a reader would be stuck."""
    with tempfile.TemporaryDirectory(prefix="page-") as spool:
        servers: list[Server] = []
        terminal = Terminal(folder, Path(spool))
        printed = ""
        for block in blocks_of(page):
            if "Ctrl-C" in block.notes:
                servers.pop().interrupt()
            if block.title is not None:
                (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
                (folder / block.title).write_text(block.text)
            elif block.is_server:
                servers.append(Server(block, folder, Path(spool)))
                printed = servers[-1].printed
            elif block.is_run:
                code, printed = terminal.paste(_as_shell(block, Path(spool)))
                if code != block.exit_code:
                    raise PageError(f"line {block.line}: exit code {code}\n{block.text}\n{printed}")
            elif block.language == "text" and block.reason_not_to_run is None:
                missing = missing_line(block.text, printed)
                if missing is not None:
                    raise PageError(f"line {block.line}: not printed: {missing}\n{printed}")
                continue
            else:
                continue
            if block.title is None:
                out.write(f"---- line {block.line}\n{block.text}----\n{printed}\n")
        for server in reversed(servers):
            server.interrupt()


def _as_shell(block: Block, spool: Path) -> Block:
    """Return a shell block for any block; a Python program is saved and run in the same terminal."""
    if block.language == "sh":
        return block
    program = spool / f"program-{block.line}.py"
    program.write_text(block.text)
    notes = block.notes
    return Block(line=block.line, language="sh", title=None, text=f"python {program}\n", notes=notes)


def _reader_environment() -> dict[str, str]:
    """Return an environment that finds Ottla by its installation, not by the repository on PYTHONPATH."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "PATH": path, "COLUMNS": "120"}


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def pages() -> list[Path]:
    """Return the README and the pages under docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pages", description="Run one page and show it.")
    parser.add_argument("page", type=Path)
    parser.add_argument("folder", type=Path, nargs="?", help="an empty folder (default: a temporary one)")
    parser.add_argument("--inside", action="store_true", help="the namespaces exist already")
    parser.add_argument("--show", action="store_true", help="print what the blocks print")
    arguments = parser.parse_args()
    if not arguments.inside:
        with tempfile.TemporaryDirectory(prefix="reader-") as folder:
            page = arguments.page.resolve()
            return run_page(page, (arguments.folder or Path(folder)).resolve(), shows=True).returncode
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    try:
        with Path(os.devnull).open("w") as nowhere:
            follow(arguments.page, arguments.folder, sys.stdout if arguments.show else nowhere)
    except PageError as error:
        print(f"{arguments.page.name}, {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
