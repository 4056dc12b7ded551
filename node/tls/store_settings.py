"""The settings of a keystore or a truststore, which name a file or contain the PEM, and their conflicts."""

from dataclasses import dataclass, field
from typing import Final

PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
TLS_1_2: Final = "TLSv1.2"
TLS_1_3: Final = "TLSv1.3"
_TO_PKCS12: Final = (
    "keytool -importkeystore -srckeystore STORE.jks -destkeystore STORE.p12 -deststoretype PKCS12"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """The settings of a keystore or a truststore: the path of a file, or the PEM itself."""

    type: str
    location: str | None
    password: str | None = field(repr=False)
    key_password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)  # PEM
    certificates: str | None = field(default=None, repr=False)  # PEM

    @property
    def is_given(self) -> bool:
        """Return True if a file or PEM is set."""
        return self.location is not None or self.key is not None or self.certificates is not None


def type_problem(value: object) -> str | None:
    """Return the problem with a type of store as a sentence, or None."""
    if value in (PEM, PKCS12):
        return None
    if value in ("JKS", "JCEKS"):
        return f"only Java reads such a store; convert it by: {_TO_PKCS12}, and set the type PKCS12."
    return f"it must be one of: {PEM}, {PKCS12}."


def keystore_problem(store: StoreSettings) -> tuple[str, str] | None:
    """Return the wrong or missing setting of a keystore, and the reason; None if there is no problem.

    The reason is the predicate of a sentence whose subject is the listener or the client.
    """
    if store.key is not None and store.certificates is None:
        return "ssl.keystore.certificate.chain", "has ssl.keystore.key, so it needs this setting, too."
    if store.certificates is not None and store.key is None:
        return "ssl.keystore.key", "has ssl.keystore.certificate.chain, so it needs this setting, too."
    return store_problem("ssl.keystore", store)


def store_problem(name: str, store: StoreSettings) -> tuple[str, str] | None:
    """Return the wrong or missing setting of a keystore or truststore, and the reason; None if all is well.

    The rules are those of Apache Kafka. The reason is a predicate, as that of `keystore_problem`.
    """
    is_inline = store.certificates is not None
    if is_inline and store.location is not None:
        return f"{name}.location", "has the certificates in its settings, so it cannot have a file, too."
    if is_inline and store.type != PEM:
        return f"{name}.type", "has the certificates in its settings, so the type must be PEM."
    if store.type == PEM and store.password is not None:
        return (
            f"{name}.password",
            f"has a store of type PEM, which has no password of its own. Set {name}.type if it has another "
            "type; ssl.key.password is the password of an encrypted private key.",
        )
    if not is_inline and store.location is None and store.password is not None:
        return f"{name}.password", f"has a password for a store, but no {name}.location."
    if store.type == PKCS12 and store.location is not None and store.password is None:
        return f"{name}.password", "has a store of type PKCS12, which needs this setting."
    return None
