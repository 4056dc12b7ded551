"""The login of a client over HTTP: the header that a REST API accepts instead of SASL."""

from ottla.node.secure_client.client_security import SaslLogin
from ottla.node.secure_client.sasl_login import token_of
from ottla.node.secure_client.token_endpoint import basic


def authorization_of(login: SaslLogin) -> str:
    """Return the value of the header Authorization: Basic for a user with a password, else Bearer.

    It is readable by everyone on the way, so it must only be sent over TLS or to a loopback address. It may
    block, and fail, as `token_of`.
    """
    if login.user:
        return basic(login.user, login.password)
    return f"Bearer {token_of(login)}"
