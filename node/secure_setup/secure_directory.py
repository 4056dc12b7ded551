"""Makes and completes the directory of keys and certificates of a secured cluster.

Each file is written to a temporary name and linked to its own, so it is either complete or missing, and an
existing file is not overwritten. A lock on the directory prevents two processes that complete it at once from
making two authorities.
"""

import fcntl
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.secure_setup.client_settings import ClientLogin, properties_text
from ottla.node.secure_setup.issued_certificates import Authority, Wanted, issue, of_node
from ottla.node.settings.secure_settings import ADMINISTRATOR, SecureFiles

PASSWORD_BYTES: Final = 24  # random, so impossible to guess
MAX_FILE_BYTES: Final = 1 << 20
ROOT: Final = 0
_PRIVATE: Final = 0o600
_PUBLIC: Final = 0o644


def complete(
    files: SecureFiles,
    *,
    hosts_of: Mapping[int, Iterable[str]],
    bootstrap: str,
    authority_of_clients: str | None = None,
    with_administrator: bool = True,
    with_keys: bool = True,
) -> list[Path]:
    """Make the missing files of a directory: authority, cluster secret, certificates of nodes, administrator.

    `hosts_of` has the hosts of each node. `bootstrap` and `authority_of_clients` (the file that clients
    trust, this directory's if None) go into client.properties. Return the files that were made;
    INVALID_CONFIG if the directory cannot be completed.
    """
    made: list[Path] = []
    with _locked(files.directory):
        if with_keys:
            missing = [node_id for node_id in hosts_of if not files.node(node_id).exists()]
            if missing or not files.authority.exists():
                made += _issue(files, {one: of_node(one, hosts_of[one]) for one in missing})
        if with_keys and _write_new(files.cluster_secret, secrets.token_urlsafe(PASSWORD_BYTES) + "\n"):
            made.append(files.cluster_secret)
        if with_administrator and not files.client_properties.exists():
            authority = str(files.authority.absolute())
            login = ClientLogin(
                bootstrap=bootstrap,
                authority=authority if authority_of_clients is None else authority_of_clients,
                user=ADMINISTRATOR,
                password=secrets.token_urlsafe(PASSWORD_BYTES),
            )
            if _write_new(files.client_properties, properties_text(login.of_java())):
                made.append(files.client_properties)
    return made


def issue_more(files: SecureFiles, wanted: Mapping[Path, Wanted], *, may_replace: bool = False) -> list[Path]:
    """Issue certificates by the authority of a directory into files; INVALID_CONFIG if one exists already.

    With `may_replace`, existing files are replaced, each atomically.
    """
    there = [path for path in wanted if path.exists()]
    if there and not may_replace:
        raise _refused(f"{there[0]} already exists; nothing was changed.")
    if not files.authority.exists():
        raise _refused(f"{files.directory} has no {files.authority.name}; `ottla secure init` makes one.")
    with _locked(files.directory):
        _, issued = issue(_authority(files), list(wanted.values()))
        for path, pem in zip(wanted, issued, strict=True):
            _replace(path, pem) if may_replace else _write_new(path, pem)
    return list(wanted)


def _issue(files: SecureFiles, wanted: Mapping[int, Wanted]) -> list[Path]:
    known = _authority(files) if files.authority.exists() else None
    if known is None and files.authority_key.exists():
        raise _refused(
            f"{files.authority_key} exists, but its certificate {files.authority.name} is missing. Bring "
            f"{files.authority.name} back; clients have a copy. To start with a new authority, remove "
            f"{files.authority_key.name} and all node-ID.pem."
        )
    authority, issued = issue(known, list(wanted.values()))
    made = []
    if known is None:
        # The certificate is written last: an interrupted start leaves the key alone, which is an error above.
        _write_new(files.authority_key, authority.key)
        _write_new(files.authority, authority.certificate, _PUBLIC)
        made += [files.authority, files.authority_key]
    for node_id, pem in zip(wanted, issued, strict=True):
        _write_new(files.node(node_id), pem)
        made.append(files.node(node_id))
    return made


def _authority(files: SecureFiles) -> Authority:
    """Return the authority of a directory; INVALID_CONFIG if its key is missing."""
    try:
        return Authority(certificate=_read(files.authority), key=_read(files.authority_key))
    except FileNotFoundError:
        raise _refused(
            f"{files.directory} has no {files.authority_key.name}. Issue the certificate where that key is, "
            "with `ottla secure certificate DIR --node ID`, and copy it here."
        ) from None
    except OSError as error:
        raise _refused(f"{error.filename}: {error.strerror}.") from None


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(MAX_FILE_BYTES).decode("utf-8", "replace")


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Make the directory if it is missing, accessible to its owner only, and lock it during the block."""
    try:
        directory.mkdir(0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _refused(f"{error.filename}: {error.strerror}. Choose another directory.") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield
        except OSError as error:
            raise _refused(f"{error.filename or directory}: {error.strerror}.") from None
    finally:
        os.close(descriptor)


def _write_new(path: Path, text: str, mode: int = _PRIVATE) -> bool:
    """Write a file unless it exists; return True if it was written."""
    _check_owner(path.parent)
    temporary = _written_beside(path, text, mode)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    return True


def _check_owner(directory: Path) -> None:
    """Raise INVALID_CONFIG if another user could replace the keys in the directory with their own."""
    found = directory.stat()
    if found.st_uid not in (os.geteuid(), ROOT):
        raise _refused(
            f"{directory} belongs to another user, who could replace them. Choose another directory."
        )
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise _refused(f"every user may write to {directory} and replace them: run `chmod o-w {directory}`.")


def _replace(path: Path, text: str) -> None:
    _written_beside(path, text, _PRIVATE).replace(path)


def _written_beside(path: Path, text: str, mode: int) -> Path:
    temporary = path.with_name(f".{path.name}.tmp")
    with suppress(FileNotFoundError):
        temporary.unlink()
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(descriptor, mode)  # regardless of the umask: clients of other users read ca.pem
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    return temporary


def made_as_text(made: Sequence[Path]) -> str:
    """Return the names of files, separated by commas."""
    return ", ".join(path.name for path in made)


def _refused(problem: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Keys and certificates: {problem}")
