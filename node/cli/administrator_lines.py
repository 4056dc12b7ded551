"""The lines that `ottla start` and `ottla cluster up` print about the administrator of a secured cluster."""

from pathlib import Path
from shlex import quote

from ottla.node.settings.properties_file import parse_properties
from ottla.node.settings.secure_settings import SecureFiles


def administrator_lines(files: SecureFiles, bootstrap: str) -> list[str]:
    """Return the path of the administrator's settings, and a command that works with them.

    `bootstrap` is the address of the node or the cluster, which an older file may lack.
    """
    path = files.client_properties
    here = Path.cwd()
    shown = quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
    known = parse_properties(path.read_bytes(), str(path)).get("bootstrap.servers")
    address = "" if known == bootstrap else f" --bootstrap {bootstrap}"
    return [
        f"Secure: the administrator's client settings are in {shown}. Try:",
        f"  ottla topic create orders --command-config {shown}{address}",
    ]
