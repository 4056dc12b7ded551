"""Creates the virtual environment and installs Debian's packages, for `scripts/setup`.

Everything goes into .venv of the checkout. A stamp in it records the state of pyproject.toml and of the other
files that `fingerprint` reads, so that later calls do nothing. Packages that need root are installed by root,
and otherwise only named.
"""

import argparse
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
EXTRAS = {"demo": "demo", "docs": "docs", "test": "dev"}
# Programs that a kind of use needs, and the Debian packages that have them. Tests skip without these.
PROGRAMS = {
    "demo": {},
    "docs": {},
    "test": {
        "kcat": "kcat",
        "javac": "openjdk-17-jdk-headless",
        "mvn": "maven",
        "pg_ctlcluster": "postgresql",
        "promtool": "prometheus",
        "chromium": "chromium",
        "chromedriver": "chromium-driver",
    },
}
# Compiled with Ottla if possible; without it everything works, with fewer checks (logstore/record_walk.py).
EXTENSION = ROOT / "logstore" / "_record_walk.c"
# The oldest supported PySpark, installed beside the newest for a thorough run (pipeline/DESIGN.md, P105).
EARLIER_PYSPARK = "4.2.1"
# Built into .venv/bin if go is installed; pinned, so that the rendered manifests change only on purpose.
GO_PROGRAMS = {"demo": {}, "docs": {}, "test": {"kustomize": "sigs.k8s.io/kustomize/kustomize/v5@v5.8.1"}}
# Without optimisation and debug information, which take half of the build time. The tests' own programs use
# equal flags and so reuse Go's compiled libraries (tests/compat/go/programs.py).
GO_FLAGS = f"{os.environ.get('GOFLAGS', '')} '-gcflags=all=-N -l' '-ldflags=-s -w'"
QUICK_GO = {"CGO_ENABLED": "0", "GOFLAGS": GO_FLAGS.lstrip()}
# Errors only: pip's warnings about the packaging of PySpark do not concern users of Ottla.
PIP = (str(VENV / "bin" / "pip"), "install", "--quiet", "--quiet", "--disable-pip-version-check")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/setup", description=__doc__)
    parser.add_argument("kind", nargs="?", choices=[*EXTRAS, "thorough"], default="test")
    parser.add_argument("--force", action="store_true", help="install again, whatever the stamp says")
    arguments = parser.parse_args()
    is_thorough = arguments.kind == "thorough"
    if not set_up("test" if is_thorough else arguments.kind, is_forced=arguments.force):
        return 1
    if is_thorough:
        install_earlier_pyspark(is_forced=arguments.force)
    return 0


def set_up(kind: str, *, is_forced: bool) -> bool:
    """Install all that this kind of use needs; return True if it is installed."""
    stamp = VENV / f".installed-{kind}"
    wanted = fingerprint()
    # The packages of the tests include those of the other kinds (`dev` of pyproject.toml).
    enough = (stamp, VENV / ".installed-test")
    if not is_forced and any(one.exists() and one.read_text() == wanted for one in enough):
        return True
    if not make_venv():
        return False
    install_compiler()
    # In parallel: one waits for the network while another compiles or writes to the disk.
    with ThreadPoolExecutor() as threads:
        ends = [threads.submit(one, kind) for one in (install_programs, install_go_programs)]
        is_installed = install(kind)
    for end in ends:
        end.result()
    if is_installed:
        report_not_compiled()
        stamp.write_text(wanted)
    return is_installed


def fingerprint() -> str:
    """Return a hash that changes whenever something else may have to be installed."""
    files = (ROOT / "pyproject.toml", ROOT / "setup.py", EXTENSION, Path(__file__))
    content = b"".join(file.read_bytes() for file in files) + sys.version.encode()
    return hashlib.sha256(content + str(ROOT).encode()).hexdigest()


def make_venv() -> bool:
    if (VENV / "bin" / "python").exists() and (VENV / "bin" / "pip").exists():
        return True
    log("creating .venv")
    if not has_module("ensurepip"):
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        if not apt_install([f"python{version}-venv"]):
            warn(f"this Python has no ensurepip; as root: apt-get install python{version}-venv")
            return False
    made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=False)
    return made.returncode == 0


def has_module(name: str) -> bool:
    return (
        subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, check=False).returncode
        == 0
    )


def install(kind: str) -> bool:
    log(f"installing Ottla and the packages of {kind} into .venv (a minute or two)")
    # Builds until 0.1 left this in src; it would count as an installed Ottla of that time.
    shutil.rmtree(ROOT / "src" / "ottla.egg-info", ignore_errors=True)
    if kind != "test":
        return end_install(kind, PIP)
    pip = (*PIP, "--no-compile")  # the tests load a tenth of 9,000 modules, and keep these compiled
    begin_install(pip)
    with compile_tests():
        return end_install(kind, pip)


def end_install(kind: str, pip: Sequence[str]) -> bool:
    """Install all packages that are missing, and Ottla itself; return True if that worked."""
    # By its path, not by setuptools' finder, because Spark lists the modules of each path to find formats.
    mode = ["--config-settings", "editable_mode=compat"]
    if subprocess.run([*pip, *mode, "--editable", f"{ROOT}[{EXTRAS[kind]}]"], check=False).returncode == 0:
        return True
    warn("pip could not install the packages; see its message above, and check the network")
    return False


def begin_install(pip: Sequence[str]) -> None:
    """Install most packages with uv, in a quarter of pip's time; pip installs later whatever fails here.

    The pip of Python 3.11 takes a minute to read the file lists of a hundred packages, which uv does in
    seconds. PySpark is left to pip, because uv would build a wheel of it first, which takes half a minute.
    """
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pyspark = next(one for one in extras["spark"] if one.startswith("pyspark"))
    with ThreadPoolExecutor() as threads:
        for one in (["uv"], ["--no-deps", pyspark]):
            threads.submit(subprocess.run, [*pip, *one], check=False)
    uv = [str(VENV / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(VENV / "bin" / "python")]
    with contextlib.suppress(OSError):  # uv is not installed
        wanted_by_tests = ["--requirement", str(ROOT / "pyproject.toml"), "--extra", EXTRAS["test"]]
        subprocess.run([*uv, *wanted_by_tests], stderr=subprocess.DEVNULL, check=False)


def compile_tests() -> subprocess.Popen[bytes]:
    """Compile the tests and the modules that they load once, as each of their processes would compile all."""
    command = [str(VENV / "bin" / "python"), "-m", "pytest", "--collect-only", "-q", "tests"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def install_compiler() -> None:
    """Install a C compiler and Python's headers if they are missing and can be installed."""
    packages = []
    if shutil.which("cc") is None:
        packages += ["gcc", "libc6-dev"]
    if not has_headers():
        packages.append(f"python{sys.version_info.major}.{sys.version_info.minor}-dev")
    if packages:
        apt_install(packages)


def has_headers() -> bool:
    """Return True if the headers of this Python are installed."""
    return Path(sysconfig.get_paths()["include"], "Python.h").exists()


def report_not_compiled() -> None:
    """Print a line with the reason if the extension was not compiled."""
    command = [str(VENV / "bin" / "python"), "-c", "import ottla.logstore._record_walk"]
    if subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0:
        return
    missing = [
        name
        for name, is_there in (("a C compiler", shutil.which("cc") is not None), ("Python.h", has_headers()))
        if not is_there
    ]
    reason = f"there is no {' and no '.join(missing)}" if missing else "the compiler failed"
    warn(f"{EXTENSION.relative_to(ROOT)} was not compiled, as {reason}: records are checked less, in Python")


def install_programs(kind: str) -> None:
    missing = {
        program: package for program, package in PROGRAMS[kind].items() if shutil.which(program) is None
    }
    if missing and not apt_install(sorted(missing.values())):
        warn(
            f"{', '.join(sorted(missing))} not found and not installed: tests that need them will be skipped"
        )


def install_go_programs(kind: str) -> None:
    for program, module in GO_PROGRAMS[kind].items():
        if shutil.which("go") is None:
            warn(f"{program} is not built, as go is not installed: tests that need it will be skipped")
            continue
        log(f"building {program} (a minute or two, the first time)")
        environment = {**os.environ, **QUICK_GO, "GOBIN": str(VENV / "bin")}
        if subprocess.run(["go", "install", module], env=environment, check=False).returncode:
            warn(f"{module} could not be built: tests that need it will be skipped")


def install_earlier_pyspark(*, is_forced: bool) -> None:
    """Install the oldest supported PySpark into a folder that tests put first on the path.

    Its dependencies are in .venv.
    """
    folder = VENV / "pyspark-4.2"
    # pip leaves a .dist-info, or an .egg-info where it had no `wheel` to build with.
    if any(folder.glob(f"pyspark-{EARLIER_PYSPARK}*-info")) and not is_forced:
        return
    log(f"installing PySpark {EARLIER_PYSPARK}, 450 MB, beside the newest one (a minute or two)")
    # An interrupted installation must not count as complete the next time.
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    wanted = ["--no-deps", "--no-compile", "--target", str(partial), f"pyspark=={EARLIER_PYSPARK}"]
    if subprocess.run([*PIP, *wanted], check=False).returncode:
        shutil.rmtree(partial, ignore_errors=True)
        left = "the installed one is kept" if folder.exists() else "the test that needs it will be skipped"
        warn(f"PySpark {EARLIER_PYSPARK} could not be installed: {left}")
        return
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def apt_install(packages: list[str]) -> bool:
    """Install Debian packages; return False if that is impossible (not root, no apt, no network)."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    log(f"apt-get install {' '.join(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    commands = (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages],
    )
    return all(
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode == 0
        for command in commands
    )


def log(text: str) -> None:
    sys.stderr.write(f"scripts/setup: {text}\n")  # one write, as others may write at the same time


def warn(text: str) -> None:
    log(f"{text}.")


if __name__ == "__main__":
    sys.exit(main())
