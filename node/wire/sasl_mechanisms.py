"""The mechanisms of SASL by which clients log in, and the login module of each in `sasl.jaas.config`."""

from collections.abc import Mapping
from typing import Final

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
# Classes of Kafka's, by the last part of their names.
LOGIN_MODULES: Final[Mapping[str, str]] = {
    PLAIN: "PlainLoginModule",
    SCRAM_SHA_256: "ScramLoginModule",
    SCRAM_SHA_512: "ScramLoginModule",
    OAUTHBEARER: "OAuthBearerLoginModule",
}
