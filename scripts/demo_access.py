"""The settings by which clients of the demo connect to its cluster: plaintext, or TLS with a login."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.node.secure_setup.client_settings import ClientLogin
from ottla.node.settings.properties_file import parse_properties
from ottla.node.settings.secure_settings import SecureFiles, administrator_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The settings of clients, for each library."""

    bootstrap: str
    confluent: Mapping[str, str] = field(repr=False)
    spark: Mapping[str, str] = field(repr=False)  # options of the source and the sink


def access_to(bootstrap: str, keys: Path | None) -> Access:
    """Return the access to a cluster; of its administrator, if it has a folder of `keys`."""
    if keys is None:
        return Access(
            bootstrap=bootstrap,
            confluent={"bootstrap.servers": bootstrap},
            spark={"kafka.bootstrap.servers": bootstrap},
        )
    files = SecureFiles(keys)
    admin = administrator_of(parse_properties(files.client_properties.read_bytes()))
    login = ClientLogin(
        bootstrap=bootstrap, authority=str(files.authority), user=admin.name, password=admin.password
    )
    return Access(
        bootstrap=bootstrap,
        confluent=login.of_librdkafka(),
        spark={f"kafka.{name}": value for name, value in login.of_java().items()},
    )
