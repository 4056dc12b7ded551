"""Logins to the console, the pages of a user with few rights, and the pages of users, ACLs and quotas."""

from collections.abc import Iterator
from itertools import combinations
from urllib.parse import quote

import pytest
from selenium import webdriver

from tests.console.console_page import ConsolePage
from tests.integration.embedded_broker import EmbeddedBroker, start_embedded
from tests.integration.rest.conftest import Api, name_of
from tests.integration.rest.test_rest_logins import basic

pytestmark = pytest.mark.slow
ADMIN, ANN = "admin-secret", "ann-secret"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    started = start_embedded(
        tmp_path_factory.mktemp("console-login"),
        ottla_rest_listeners="http://127.0.0.1:0",
        ottla_rest_authentication="basic",
        ottla_add_scram=f"SCRAM-SHA-512=[name=admin,password={ADMIN}],SCRAM-SHA-512=[name=ann,password={ANN}]",
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:admin",
        connection_failed_authentication_delay_ms=0,
    )
    yield started
    started.stop()


@pytest.fixture
def guarded(browser: webdriver.Chrome, node: EmbeddedBroker) -> Iterator[ConsolePage]:
    """Open the console of a node that requires a login, as a new visitor."""
    page = ConsolePage(browser, node.broker.rest.addresses[0].url)
    page.resize(1280)
    page.load()
    browser.delete_all_cookies()
    page.errors()
    page.load()
    yield page
    errors = [one for one in page.errors() if "/console/" not in one]
    assert errors == []


def log_in(page: ConsolePage, user: str = "admin", password: str = ADMIN) -> None:
    page.sees("Log in")
    page.fill("User", user)
    page.fill("Password", password)
    page.click("Log in")


def test_a_visitor_logs_in_sees_the_requested_page_and_logs_out(guarded: ConsolePage) -> None:
    guarded.open("#/brokers")
    log_in(guarded, password="wrong")
    guarded.sees("The login failed: check the user and the password, or the token.")
    guarded.fill("Password", ADMIN)
    guarded.click("Log in")

    guarded.eventually(lambda: guarded.title() == "Brokers", "the page of brokers is not shown")
    guarded.sees("admin", "Log out")
    guarded.load("#/brokers")
    guarded.eventually(lambda: guarded.title() == "Brokers", "a reloaded page asks for the login again")
    assert "ottla-session" not in guarded.script("return document.cookie")
    guarded.click("Log out")
    guarded.sees("Password")
    assert "Brokers" not in guarded.text()


def test_the_bar_has_room_for_the_user_on_a_phone(guarded: ConsolePage) -> None:
    log_in(guarded)
    guarded.sees("Log out", "node 0")
    places = (
        "return [...document.querySelectorAll('.bar > *')].filter((one) => one.checkVisibility())"
        ".map((one) => one.getBoundingClientRect()).map(({ x, y, right, bottom }) => [x, y, right, bottom])"
    )
    for width in (360, 390, 800):
        guarded.resize(width)

        found = guarded.script(places)

        assert len(found) == 6  # name, node and cluster, user, and three buttons
        assert all(x >= 0 and right <= width and bottom - y < 40 for x, y, right, bottom in found)
        for (x, y, right, bottom), (x2, y2, right2, bottom2) in combinations(found, 2):
            assert right <= x2 or right2 <= x or bottom <= y2 or bottom2 <= y


def test_a_session_that_has_ended_brings_the_login_back(guarded: ConsolePage, node: EmbeddedBroker) -> None:
    log_in(guarded)
    guarded.sees("Log out")
    server = node.broker.rest._server
    assert server is not None

    server._authentication.sessions._of.clear()

    guarded.sees("Password")


def test_a_page_says_which_right_a_user_lacks(guarded: ConsolePage) -> None:
    log_in(guarded, "ann", ANN)
    guarded.sees("Log out")
    guarded.open("#/access")

    guarded.sees("User:ann may not see this.", "DESCRIBE")
    guarded.open("#/topics")
    guarded.sees("There are no topics yet.")


def test_users_are_created_changed_and_deleted(guarded: ConsolePage) -> None:
    name = name_of("nora")
    log_in(guarded)
    guarded.click("Access")
    guarded.sees("Create a user…")
    guarded.click("Create a user…")
    guarded.fill("Name", name)
    guarded.fill("Password", "one")
    guarded.fill("Password again", "two")
    guarded.click("Create")
    guarded.sees("The two passwords differ.")
    guarded.fill("Password again", "one")
    guarded.click("Create")

    guarded.sees(f"User {name} is created.")
    guarded.eventually(
        lambda: "SCRAM-SHA-512 (4096 iterations)" in guarded.cells_of(name), "the user is not shown"
    )
    guarded.click(f"Set the password of {name}")
    guarded.fill("Password", "three")
    guarded.fill("Password again", "three")
    guarded.click("Set the password")
    guarded.sees(f"The password of {name} is set.")
    guarded.click(f"Delete {name}")
    guarded.click("Delete the user")
    guarded.sees(f"User {name} is deleted.")
    guarded.eventually(lambda: name not in [row[1] for row in guarded._rows()], "the user is still shown")


def test_acls_are_created_found_and_deleted(guarded: ConsolePage) -> None:
    principal = f"User:{name_of('olga')}"
    log_in(guarded)
    guarded.sees("Log out")
    guarded.open("#/access/acls")
    guarded.click("Create an ACL…")
    guarded.fill("Resource name", "orders-")
    guarded.choose("Names that it applies to", "names that begin with it")
    guarded.click("Create")
    guarded.sees("Principal must not be empty.")
    guarded.fill("Principal", principal)
    guarded.click("Create")

    guarded.sees(f"The ACL of {principal} is created.")
    guarded.eventually(
        lambda: guarded.cells_of(principal)[:5] == [principal, "allow", "READ", "topic orders-…", "any"],
        "no such ACL",
    )
    guarded.fill("Search", "nothing like it")
    guarded.sees("No ACL contains this text.")
    guarded.fill("Search", principal)
    guarded.click(f"Delete the ACL of {principal}")
    guarded.sees(f"{principal} from any host: allow READ on topic orders-…")
    guarded.click("Delete the ACL")
    guarded.sees("The ACL is deleted.")


def test_quotas_are_set_and_removed(guarded: ConsolePage) -> None:
    user = name_of("paul")
    log_in(guarded)
    guarded.sees("Log out")
    guarded.open("#/access/quotas")
    guarded.click("Set a quota…")
    guarded.fill("Value", "1048576")
    guarded.click("Set the quota")
    guarded.sees("Name a user, a client id or an address.")
    guarded.fill("User", user)
    guarded.fill("Client id", "*")
    guarded.click("Set the quota")

    guarded.sees(f"The quota of user {user}, default client id is set.")
    guarded.eventually(
        lambda: "1 MiB/s written" in guarded.cells_of(f"user {user}, default client id"), "no such quota"
    )
    guarded.click(f"Remove the quotas of user {user}, default client id")
    guarded.click("Remove the quotas")
    guarded.sees("are removed.")


# ---- text that another user may have entered ---------------------------------------------------------------

IMAGE = "<img src=x onerror=\"window.hacked='image'\">"
BACKWARDS = "abc\u202edcba"
FOREIGN = "main img, main script, main iframe, main [onerror], dialog img, dialog script"


def test_names_of_users_acls_and_quotas_are_shown_and_do_nothing(
    guarded: ConsolePage, node: EmbeddedBroker
) -> None:
    api = Api(node.broker.rest.addresses[0].url, "any", headers=basic("admin", ADMIN))
    v3 = f"/v3/clusters/{api.get('/v3/clusters')['data'][0]['cluster_id']}"
    user, principal = f"{name_of('u')}{IMAGE}", f"User:{name_of('p')}{IMAGE}{BACKWARDS}"
    acl = {"resource_type": "TOPIC", "resource_name": IMAGE, "pattern_type": "PREFIXED"}
    acl |= {"principal": principal, "host": "*", "operation": "READ", "permission": "ALLOW"}
    entity = {"user": f"{user}{BACKWARDS}", "client_id": IMAGE}
    assert api.ask("PUT", f"/v1/users/{quote(user, safe='')}", {"password": "x"}).status == 204
    assert api.ask("POST", f"{v3}/acls", acl).status == 201
    quota = {"entity": entity, "quotas": {"producer_byte_rate": 1_000}}
    assert api.ask("PUT", "/v1/quotas", quota).status in (200, 204)
    log_in(guarded)
    guarded.sees("Log out")

    guarded.open("#/access")
    guarded.sees(user)
    guarded.click(f"Delete {user}")
    guarded.sees("Delete the user")
    guarded.click("Cancel")
    guarded.open("#/access/acls")
    guarded.sees(principal.replace("\u202e", "\\u202e"), IMAGE)
    guarded.open("#/access/quotas")
    guarded.sees(f"{user}abc\\u202edcba")

    assert guarded.script("return document.querySelectorAll(arguments[0]).length", FOREIGN) == 0
    assert guarded.script("return window.hacked === undefined")


def test_a_live_tail_that_loses_its_session_brings_the_login_back(
    guarded: ConsolePage, node: EmbeddedBroker
) -> None:
    api = Api(node.broker.rest.addresses[0].url, "any", headers=basic("admin", ADMIN))
    v3 = f"/v3/clusters/{api.get('/v3/clusters')['data'][0]['cluster_id']}"
    topic = name_of("watched")
    assert api.ask("POST", f"{v3}/topics", {"topic_name": topic}).status == 201
    log_in(guarded)
    guarded.sees("Log out")
    guarded.open(f"#/topics/{topic}/records")
    guarded.click("Live tail")
    server = node.broker.rest._server
    assert server is not None
    guarded.eventually(lambda: len(server._standing) > 0, "the tail does not start")

    server._authentication.sessions._of.clear()

    guarded.sees("Password")
    guarded.eventually(lambda: len(server._standing) == 0, "the tail does not end")
