"""The settings of a login for several client libraries."""

import pytest

from ottla.node.secure_client.client_security import read_client_security
from ottla.node.secure_setup.client_settings import ClientLogin, properties_text
from ottla.node.settings.properties_file import parse_properties


@pytest.mark.parametrize(
    "password", ["plain", 'quo"te', "back\\slash", "pass=word; with:all #of!it", "größe €"]
)
@pytest.mark.parametrize("authority", ["/etc/ottla/ca.pem", "/my keys/größe/ca.pem", "C:\\ca.pem", ""])
def test_a_properties_file_is_read_as_it_was_written(password: str, authority: str) -> None:
    login = ClientLogin(bootstrap="[::1]:9092", authority=authority, user="anna", password=password)

    found = parse_properties(properties_text(login.of_java()).encode("ascii"))
    security, idle = read_client_security(found)

    assert found["bootstrap.servers"] == "[::1]:9092" and idle == ()
    assert security.login is not None and security.tls is not None
    assert (security.login.user, security.login.password) == ("anna", password)
    trusted = security.tls.truststore
    assert (trusted.location if trusted is not None else "") == authority


def test_no_representation_of_a_login_shows_the_password() -> None:
    login = ClientLogin(bootstrap="", authority="", user="anna", password="hidden")

    assert "hidden" not in repr(login)
    assert "bootstrap.servers" not in login.of_java()
