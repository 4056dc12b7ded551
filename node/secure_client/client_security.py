"""Reads `security.protocol`, `ssl.*` and `sasl.*` of a client, by Java's names, into one frozen record.

It opens no files: a pipeline reads its settings in one process and connects in others. One default differs
from Kafka's: a store is PEM, or PKCS12 if it has a password, since only Java reads JKS. A login module is
identified by the last part of its class name, since some vendors move the packages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from ottla.node.secure_client.security_names import READ, is_of_security, problem_of_name
from ottla.node.tls.cipher_suites import allows_tls_1_2, allows_tls_1_3, suites_problem
from ottla.node.tls.store_settings import (
    PEM,
    PKCS12,
    TLS_1_2,
    TLS_1_3,
    StoreSettings,
    keystore_problem,
    store_problem,
    type_problem,
)
from ottla.node.wire.jaas import JaasError, LoginModule, parse_jaas
from ottla.node.wire.sasl_mechanisms import (
    LOGIN_MODULES,
    OAUTHBEARER,
    PLAIN,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
)

MECHANISMS: Final = (SCRAM_SHA_512, SCRAM_SHA_256, PLAIN, OAUTHBEARER)
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PACKAGES: Final = {
    "PlainLoginModule": "org.apache.kafka.common.security.plain.",
    "ScramLoginModule": "org.apache.kafka.common.security.scram.",
    "OAuthBearerLoginModule": "org.apache.kafka.common.security.oauthbearer.",
}
_JAAS: Final = "sasl.jaas.config"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"
URL_ENCODE: Final = "sasl.oauthbearer.header.urlencode"
_EXTENSION: Final = "extension_"  # the prefix of the options that are sent to the server with a token
# Kafka's own classes whose behaviour this client has anyway.
_SAME_HERE: Final = {
    "sasl.login.callback.handler.class": ("OAuthBearerLoginCallbackHandler",),
    "sasl.oauthbearer.jwt.retriever.class": (
        "ClientCredentialsJwtRetriever",
        "DefaultJwtRetriever",
        "FileJwtRetriever",
    ),
}


class ClientSecurityError(Exception):
    """An unusable setting; `problem` continues a sentence that begins with the setting's name."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name} {problem}")
        self.name = name
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """The TLS settings of a client: trusted authorities, its own certificate, versions and cipher suites."""

    keystore: StoreSettings | None = None  # None: no client certificate
    truststore: StoreSettings | None = None  # None: the authorities that this system trusts
    checks_host_names: bool = True
    enabled_protocols: tuple[str, ...] = (TLS_1_2, TLS_1_3)
    cipher_suites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """The token endpoint of an OAuth provider, and the id and secret of a client there."""

    url: str  # https
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    encodes_header: bool = False  # URL-encode id and secret in the Authorization header, as RFC 6749 does
    tls: ClientTls | None = None  # None: the authorities that this system trusts


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslLogin:
    """The login of a client: a mechanism with its user and secrets."""

    mechanism: str
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)  # of OAUTHBEARER
    token_file: str = ""  # read at each login if there is no token
    credentials: ClientCredentials | None = None  # to fetch tokens with if there is neither token nor file
    extensions: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """The security of a client's connections, with or without TLS, with or without a login."""

    tls: ClientTls | None = None
    login: SaslLogin | None = None

    @property
    def protocol(self) -> str:
        """The value of `security.protocol`."""
        if self.login is None:
            return "PLAINTEXT" if self.tls is None else "SSL"
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """The settings that name files, with their paths."""
        stores = (
            () if self.tls is None else (("keystore", self.tls.keystore), ("truststore", self.tls.truststore))
        )
        found = [(f"ssl.{kind}.location", one.location) for kind, one in stores if one and one.location]
        if self.login is not None and self.login.token_file:
            found.append((TOKEN_URL, self.login.token_file))
        return tuple(found)


PLAINTEXT: Final = ClientSecurity()


def read_client_security(given: Mapping[str, str]) -> tuple[ClientSecurity, tuple[str, ...]]:
    """Return the security that the settings describe, and the names of those without effect.

    Settings other than those of security are ignored. ClientSecurityError for the first unusable one.
    """
    ours = {name: value for name, value in given.items() if is_of_security(name)}
    for name, value in sorted(ours.items()):
        if value.rpartition(".")[2] in _SAME_HERE.get(name, ()):
            continue
        if (problem := problem_of_name(name)) is not None:
            raise ClientSecurityError(name, problem)
    protocol = ours.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise ClientSecurityError(
            "security.protocol", f"is {protocol[:40]!r}; it must be one of {', '.join(PROTOCOLS)}"
        )
    with_tls, with_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    idle = tuple(
        name
        for name in sorted(ours)
        if name not in READ
        or (name.startswith("ssl.") and not with_tls)
        or (name.startswith("sasl.") and not with_sasl)
    )
    security = ClientSecurity(tls=_tls(ours) if with_tls else None, login=_login(ours) if with_sasl else None)
    return security, idle


# ---- TLS ------------------------------------------------------------------------------------------


def _tls(given: Mapping[str, str]) -> ClientTls:
    keystore = StoreSettings(
        type=_store_type(given, "ssl.keystore"),
        location=given.get("ssl.keystore.location") or None,
        password=given.get("ssl.keystore.password") or None,
        key_password=given.get("ssl.key.password") or None,
        key=given.get("ssl.keystore.key") or None,
        certificates=given.get("ssl.keystore.certificate.chain") or None,
    )
    truststore = StoreSettings(
        type=_store_type(given, "ssl.truststore"),
        location=given.get("ssl.truststore.location") or None,
        password=given.get("ssl.truststore.password") or None,
        certificates=given.get("ssl.truststore.certificates") or None,
    )
    problem = keystore_problem(keystore) or store_problem("ssl.truststore", truststore)
    if problem is not None:
        raise ClientSecurityError(problem[0], f"is wrong: this client {problem[1].rstrip('.')}")
    return ClientTls(
        keystore=keystore if keystore.is_given else None,
        truststore=truststore if truststore.is_given else None,
        checks_host_names=_checks_host_names(given.get("ssl.endpoint.identification.algorithm", "https")),
        enabled_protocols=(protocols := _protocols(given)),
        cipher_suites=_suites(given, protocols),
    )


def _store_type(given: Mapping[str, str], name: str) -> str:
    """Return the type of a store. As in Java, `JKS` with a password also reads PKCS12."""
    has_password = bool(given.get(f"{name}.location")) and bool(given.get(f"{name}.password"))
    found = given.get(f"{name}.type", PKCS12 if has_password else PEM).upper()
    if found == "JKS" and has_password:
        return PKCS12
    if (problem := type_problem(found)) is not None:
        raise ClientSecurityError(f"{name}.type", f"is {found[:40]!r}: {problem.rstrip('.')}")
    return found


def _checks_host_names(algorithm: str) -> bool:
    if algorithm.lower() not in ("", "https"):
        raise ClientSecurityError(
            "ssl.endpoint.identification.algorithm",
            f"is {algorithm[:40]!r}; it must be https, or empty, which accepts the certificate of any host "
            "from a trusted authority, and so allows a man in the middle",
        )
    return bool(algorithm)


def _protocols(given: Mapping[str, str]) -> tuple[str, ...]:
    name = "ssl.enabled.protocols"
    found = tuple(filter(None, (one.strip() for one in given.get(name, f"{TLS_1_2},{TLS_1_3}").split(","))))
    wrong = [one for one in found if one not in (TLS_1_2, TLS_1_3)]
    if wrong or not found:
        is_wrong = f"has {wrong[0][:40]!r}; it" if wrong else "is empty; it"
        raise ClientSecurityError(name, f"{is_wrong} may have {TLS_1_2} and {TLS_1_3}")
    highest = given.get("ssl.protocol", TLS_1_3)
    if highest not in ("TLS", TLS_1_2, TLS_1_3):
        raise ClientSecurityError("ssl.protocol", f"is {highest[:40]!r}; it must be {TLS_1_3} or {TLS_1_2}")
    if highest == TLS_1_2:
        found = tuple(one for one in found if one == TLS_1_2)
        if not found:
            raise ClientSecurityError("ssl.protocol", f"is {TLS_1_2}, which {name} does not have")
    return found


def _suites(given: Mapping[str, str], protocols: tuple[str, ...]) -> tuple[str, ...]:
    name = "ssl.cipher.suites"
    suites = tuple(filter(None, (one.strip() for one in given.get(name, "").split(","))))
    if (problem := suites_problem(suites)) is not None:
        raise ClientSecurityError(name, f"cannot be used: {problem.rstrip('.')}")
    if not (
        (TLS_1_2 in protocols and allows_tls_1_2(suites)) or (TLS_1_3 in protocols and allows_tls_1_3(suites))
    ):
        raise ClientSecurityError(name, "has no suite of the TLS versions in ssl.enabled.protocols")
    return suites


# ---- SASL -----------------------------------------------------------------------------------------


def _login(given: Mapping[str, str]) -> SaslLogin:
    mechanism = given.get("sasl.mechanism")
    known = ", ".join(MECHANISMS)
    if mechanism is None:
        raise ClientSecurityError(
            "sasl.mechanism", f"is not set, and Kafka's default, GSSAPI, is not supported; set one of {known}"
        )
    if mechanism not in MECHANISMS:
        raise ClientSecurityError(
            "sasl.mechanism", f"is {mechanism[:40]!r}, which is not supported; set one of {known}"
        )
    module = _module(given, mechanism)
    if mechanism == OAUTHBEARER:
        return _bearer(given, module.options)
    found = {}
    for option in ("username", "password"):
        if not (value := module.options.get(option, "")):
            raise ClientSecurityError(
                _JAAS, f'has no {option} in its {LOGIN_MODULES[mechanism]} ({option}="...")'
            )
        if "\0" in value:
            raise ClientSecurityError(_JAAS, f"has a {option} with a NUL character")
        found[option] = value
    if module.options.get("tokenauth", "").lower() == "true":
        raise ClientSecurityError(_JAAS, "has tokenauth=true, but delegation tokens are not supported")
    return SaslLogin(mechanism=mechanism, user=found["username"], password=found["password"])


def _module(given: Mapping[str, str], mechanism: str) -> LoginModule:
    wanted = LOGIN_MODULES[mechanism]
    options = 'token="..."' if mechanism == OAUTHBEARER else 'username="..." password="..."'
    example = f"{_JAAS}={_PACKAGES[wanted]}{wanted} required {options};"
    text = given.get(_JAAS, "")
    if not text.strip():
        raise ClientSecurityError(_JAAS, f"is not set, and {mechanism} needs it: {example}")
    try:
        modules = parse_jaas(text)
    except JaasError as error:
        raise ClientSecurityError(
            _JAAS, f"cannot be read: {str(error).rstrip('.')}. Write {example}"
        ) from None
    if len(modules) != 1:
        raise ClientSecurityError(_JAAS, f"has {len(modules)} login modules; it must have one")
    found = modules[0].name.rpartition(".")[2]
    if found != wanted:
        raise ClientSecurityError(_JAAS, f"has a {found[:80]}, but {mechanism} needs a {wanted}: {example}")
    return modules[0]


def _bearer(given: Mapping[str, str], options: Mapping[str, str]) -> SaslLogin:
    url = given.get(TOKEN_URL, "")
    extensions = tuple(
        sorted(
            (name.removeprefix(_EXTENSION), one)
            for name, one in options.items()
            if name.startswith(_EXTENSION)
        )
    )
    for name, value in extensions:
        if not name.isascii() or not name.isalpha() or name.lower() == "auth" or not value.isprintable():
            raise ClientSecurityError(_JAAS, f"has an extension that cannot be sent: {_EXTENSION}{name[:80]}")
    token = options.get("token", "")
    if token and url:
        raise ClientSecurityError(TOKEN_URL, f"is set, but {_JAAS} has a token, too; remove one of them")
    if token:
        if not may_be_token(token):
            raise ClientSecurityError(_JAAS, "has a token with invalid characters")
        return SaslLogin(mechanism=OAUTHBEARER, token=token, extensions=extensions)
    if not url:
        raise ClientSecurityError(
            _JAAS, f'has no token (token="..."), and {TOKEN_URL} names no file with one (file:///path)'
        )
    parts = urlsplit(url)
    if parts.scheme == "https":
        credentials = _credentials(url, given, options)
        return SaslLogin(mechanism=OAUTHBEARER, credentials=credentials, extensions=extensions)
    if parts.scheme != "file" or not parts.path.startswith("/"):
        raise ClientSecurityError(
            TOKEN_URL,
            f"is {url[:80]!r}; it must be a file with a token, file:///path, or a provider, https://host/path",
        )
    return SaslLogin(mechanism=OAUTHBEARER, token_file=unquote(parts.path), extensions=extensions)


def _credentials(url: str, given: Mapping[str, str], options: Mapping[str, str]) -> ClientCredentials:
    """Read the client credentials; settings take precedence over the login module's options."""
    parts = urlsplit(url)
    try:
        is_usable = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_usable = False
    if (
        not is_usable
        or parts.username is not None
        or parts.fragment
        or not (url.isascii() and url.isprintable())
    ):
        raise ClientSecurityError(TOKEN_URL, "is not the address of a provider: https://host:port/path")
    client_id = given.get(CLIENT_ID, "") or options.get("clientId", "")
    secret = given.get(CLIENT_SECRET, "") or options.get("clientSecret", "")
    for name, option, value in ((CLIENT_ID, "clientId", client_id), (CLIENT_SECRET, "clientSecret", secret)):
        if not value:
            raise ClientSecurityError(
                name, f"is not set, and {_JAAS} has no option {option}, but {TOKEN_URL} names a provider"
            )
    encodes = given.get(URL_ENCODE, "false").lower()
    if encodes not in ("true", "false"):
        raise ClientSecurityError(URL_ENCODE, f"is {encodes[:40]!r}; it must be true or false")
    of_tls = {name: value for name, value in options.items() if name.startswith("ssl.")}
    for name in of_tls:
        if name not in READ:
            raise ClientSecurityError(_JAAS, f"has an option {name[:80]}, which is not supported")
    return ClientCredentials(
        url=url,
        client_id=client_id,
        client_secret=secret,
        scope=given.get(SCOPE, "") or options.get("scope", ""),
        encodes_header=encodes == "true",
        tls=_tls(of_tls) if of_tls else None,
    )


def may_be_token(text: str) -> bool:
    """Return True if the text consists of characters that tokens may have."""
    return text.isascii() and all(one.isalnum() or one in "-_~+/.=" for one in text)
