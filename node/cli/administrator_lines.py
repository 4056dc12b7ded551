"""What `ottla start` and `ottla cluster up` tell about the administrator of a secured cluster."""

from pathlib import Path
from shlex import quote

from ottla.node.settings.secure_settings import SecureFiles


def administrator_lines(files: SecureFiles) -> list[str]:
    """Return where the settings of the administrator are, and a command that works with them."""
    path = files.client_properties
    here = Path.cwd()
    shown = quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
    return [
        f"Secure: the administrator's client settings are in {shown}. Try:",
        f"  ottla topic create orders --command-config {shown}",
    ]
