"""`ottla rest` and `rest.url`: addresses, logins, bodies, and responses of other servers."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
import trustme

from ottla.node.cli import rest_command
from ottla.node.cli.command_config import RestConnection, rest_connection, rest_connection_of
from ottla.node.cli.failure import CommandError
from ottla.node.cli.profiles import Profiles, write_profiles
from ottla.node.cli.rest_command import RestRequest, request_of
from ottla.node.cli.rest_url import LOCAL_REST, MAX_URL_CHARS, RestUrl, parse_rest_url
from tests.unit.node.cli.conftest import Command
from tests.unit.node.cli.test_profiles import JAAS

LOGIN: Final = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS}
TOKEN: Final = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": 'a.OAuthBearerLoginModule required token="abc.def";',
}


# ---- addresses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://localhost:8082", RestUrl("http://localhost:8082", "localhost", False)),
        ("HTTPS://Node-1:8443/", RestUrl("https://Node-1:8443", "node-1", True)),
        ("https://proxy/kafka/", RestUrl("https://proxy/kafka", "proxy", True)),
        ("http://[::1]:8082", RestUrl("http://[::1]:8082", "::1", False)),
    ],
)
def test_a_url_is_a_scheme_a_host_a_port_and_a_prefix(text: str, expected: RestUrl) -> None:
    assert parse_rest_url(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:8082",
        "ftp://x",
        "http://",
        "http://x:0",
        "http://x:99999",
        "http://[::1",
        "http://anna:secret@x",
        "http://x?a=b",
        "http://x#a",
        "http://x\\y",
        "http://x/\x1b[2J",
        "http://bücher",
        "http://" + "x" * MAX_URL_CHARS,
    ],
)
def test_anything_else_is_no_url_of_a_rest_api(text: str) -> None:
    with pytest.raises(ValueError, match="is not the URL of a REST API") as refused:
        parse_rest_url(text)

    assert len(str(refused.value)) < 300 and "\x1b" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "given", "protocol"),
    [
        ("http://x:1", {}, "PLAINTEXT"),
        ("http://x:1", {"security.protocol": "SSL"}, "PLAINTEXT"),
        ("https://x:1", {}, "SSL"),
        ("https://x:1", LOGIN, "SASL_SSL"),
        ("http://127.0.0.1:1", {"security.protocol": "SASL_SSL", **LOGIN}, "SASL_PLAINTEXT"),
        ("http://localhost:1", TOKEN, "SASL_PLAINTEXT"),
    ],
)
def test_the_security_follows_from_the_url(url: str, given: Mapping[str, str], protocol: str) -> None:
    assert rest_connection(url, given, "here").security.protocol == protocol


@pytest.mark.parametrize("login", [LOGIN, TOKEN])
def test_no_login_is_sent_over_a_network_without_encryption(login: Mapping[str, str]) -> None:
    with pytest.raises(CommandError, match="without encryption, where others can read it"):
        rest_connection("http://node-1:8082", login, "here")


# ---- profiles -----------------------------------------------------------------------------------


def test_a_profile_has_the_url_of_a_rest_api(ottla: Command) -> None:
    ottla("profile", "create", "p", "-b", "a:1", "--rest", "http://localhost:1", "--use")
    before = ottla.as_json("profile", "list")
    ottla("profile", "set", "p", "--rest", "https://b:2/api")
    shown = ottla.as_json("profile", "show")
    table = ottla("profile", "list").splitlines()
    ottla("profile", "set", "p", "--reset", "rest.url")

    assert before[0]["rest"] == "http://localhost:1"
    assert shown["settings"] == {"bootstrap.servers": "a:1", "rest.url": "https://b:2/api"}
    assert table[0].split()[-1] == "rest" and table[1].split()[-1] == "https://b:2/api"
    assert ottla.as_json("profile", "list")[0]["rest"] is None


def test_a_profile_whose_login_others_could_read_is_rejected(ottla: Command, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in LOGIN.items()))

    message = ottla("profile", "create", "p", "--from", str(path), "--rest", "http://node-1:1", code=2)

    assert "without encryption" in message and "apple-pie" not in message


def test_settings_that_only_the_rest_api_needs_are_not_warned_of(
    ottla: Command, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in LOGIN.items()))

    ottla(
        "profile",
        "create",
        "p",
        "--from",
        str(path),
        "--rest",
        "https://node-1:1",
        "ssl.truststore.location=x",
    )

    assert "warning" not in capfd.readouterr().err


@pytest.mark.usefixtures("ottla")
def test_the_login_of_the_current_profile_goes_to_its_own_url_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rest_connection_of(None, None).url.text == LOCAL_REST
    write_profiles(Profiles("prod", {"prod": {"rest.url": "https://prod:1", **LOGIN}}))
    plain = tmp_path / "plain.properties"
    plain.write_text("")

    assert rest_connection_of(None, None).security.login is not None
    assert rest_connection_of("https://elsewhere:1", None).security.login is None
    assert rest_connection_of("http://elsewhere:1", plain).security.login is None
    with pytest.raises(CommandError, match=r"plain.properties has no rest.url"):
        rest_connection_of(None, plain)


@pytest.mark.parametrize(
    ("words", "variables", "url"),
    [
        ((), {}, "http://127.0.0.1:1"),
        ((), {"OTTLA_REST": "http://127.0.0.1:2"}, "http://127.0.0.1:2"),
        (("--url", "http://127.0.0.1:3"), {"OTTLA_REST": "http://127.0.0.1:2"}, "http://127.0.0.1:3"),
        (("--profile", "prod"), {"OTTLA_REST": "http://127.0.0.1:2"}, "http://127.0.0.1:4"),
        ((), {"OTTLA_PROFILE": "prod", "OTTLA_REST": "http://127.0.0.1:2"}, "http://127.0.0.1:2"),
        (("--profile", "none"), {}, ""),
    ],
)
def test_options_come_before_the_environment_and_that_before_profiles(
    ottla: Command,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    variables: dict[str, str],
    url: str,
) -> None:
    urls = []
    local, prod = {"rest.url": "http://127.0.0.1:1"}, {"rest.url": "http://127.0.0.1:4"}
    write_profiles(Profiles("local", {"local": local, "prod": prod, "none": {}}))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    async def note(connection: RestConnection, request: RestRequest, *, as_json: bool) -> int:
        urls.append(connection.url.text)
        return 0

    monkeypatch.setattr(rest_command, "ask", note)
    message = ottla("rest", "GET", "/v3/clusters", *words, code=0 if url else 2)

    assert urls == ([url] if url else [])
    assert url or "Profile none has no rest.url: add --url, or set OTTLA_REST" in message


# ---- requests -----------------------------------------------------------------------------------


def test_a_body_is_given_as_it_is_as_a_file_or_on_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "body.json"
    path.write_bytes(b'{"a": "\xc3\xab"}')

    given = request_of("POST", "/x?q=ë b%20c", '{"a": 1}', ["X-A: b"], 1)
    from_file = request_of("POST", "/x", f"@{path}", ["content-type: text/plain"], 1)
    with path.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        from_input = request_of("POST", "/x", "-", [], 1)

    assert given.data == b'{"a": 1}' and given.path == "/x?q=%C3%AB%20b%20c"
    assert given.headers == [("X-A", "b"), ("Content-Type", "application/json")]
    assert from_file.data == from_input.data == path.read_bytes()
    assert from_file.headers == [("content-type", "text/plain")]
    assert request_of("GET", "/x", None, [], 1).headers == []


def test_a_body_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_command, "MAX_DATA_BYTES", 3)
    path = tmp_path / "body"
    path.write_bytes(b"1234")

    with pytest.raises(CommandError, match="has more than"):
        request_of("POST", "/x", f"@{path}", [], 1)


@pytest.mark.parametrize(
    ("path", "header", "message"),
    [
        ("v3/clusters", "A: b", "must begin with a slash"),
        ("https://elsewhere/x", "A: b", "must begin with a slash"),
        ("/x", "A", "is not a header"),
        ("/x", "A: b\r\nC: d", "is not a header"),
        ("/x", "authorization: Basic eA==", "is a secret"),
        ("/x", "Cookie: a=b", "is a secret"),
        ("/x", "Host: elsewhere", "is set by the command itself"),
    ],
)
def test_an_invalid_request_is_not_sent(path: str, header: str, message: str) -> None:
    with pytest.raises(CommandError, match=message) as refused:
        request_of("GET", path, None, [header], 1)

    assert "eA==" not in str(refused.value)


# ---- answers of other programs -------------------------------------------------------------------


class Server:
    """A server that answers each request by a function, over TLS if it has a certificate."""

    def __init__(self, answer: Callable[[socket.socket], None], tls: ssl.SSLContext | None = None) -> None:
        self._answer, self._tls = answer, tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.requests: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._listening.accept()
                one = self._tls.wrap_socket(plain, server_side=True) if self._tls else plain
            except ssl.SSLError:
                continue
            except OSError:
                return
            with one:
                self.requests.append(one.recv(65536))
                try:
                    self._answer(one)
                except OSError:  # the command has ended
                    pass

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # which wakes the thread
        self._listening.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    begun: list[Server] = []

    def begin(answer: bytes | Callable[[socket.socket], None], tls: ssl.SSLContext | None = None) -> Server:
        begun.append(Server(answer if callable(answer) else lambda one: one.sendall(answer), tls))
        return begun[-1]

    yield begin
    for one in begun:
        one.close()


def http(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


JSON: Final = "Content-Type: application/json"


def test_a_body_is_printed_as_it_came_and_ends_its_line(ottla: Command, serve: Callable[..., Server]) -> None:
    server = serve(http("200 OK", b'{"a": 1.10,  "b": "\\u00eb"}', JSON))

    plain = ottla("rest", "get", "/a%20b?c=d", "--url", f"http://127.0.0.1:{server.port}/api")
    document = ottla.as_json("rest", "GET", "/", "--url", f"http://127.0.0.1:{server.port}")

    assert plain == '{"a": 1.10,  "b": "\\u00eb"}\n'
    assert document == {"status": 200, "body": {"a": 1.1, "b": "ë"}}
    assert server.requests[0].startswith(b"GET /api/a%20b?c=d HTTP/1.1\r\n")
    assert b"Authorization" not in server.requests[0]


def test_a_terminal_gets_json_indented_and_no_control_characters(
    ottla: Command, serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = serve(http("200 OK", '{"a":[1.10,"\x9b"]}'.encode(), JSON))
    text = serve(http("200 OK", b"a\x1b[2J\n", "Content-Type: text/plain"))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    indented = ottla("rest", "GET", "/", "--url", f"http://127.0.0.1:{document.port}")
    escaped = ottla("rest", "GET", "/", "--url", f"http://127.0.0.1:{text.port}")

    assert indented == '{\n  "a": [\n    1.10,\n    "\\x9b"\n  ]\n}\n'
    assert escaped == "a\\x1b[2J\n"


def test_an_error_is_a_sentence_and_the_exit_code_1(ottla: Command, serve: Callable[..., Server]) -> None:
    body = b'{"error_code": 40403, "message": "There is no topic x\\u001b."}'
    server = serve(http("404 Not Found", body, JSON))

    assert ottla("rest", "GET", "/", "--url", f"http://127.0.0.1:{server.port}", code=1) == (
        "ottla: There is no topic x\\x1b. (HTTP 404)\n"
    )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            http("302 Found", b"", "Location: http://elsewhere/"),
            "redirects to http://elsewhere/, which is not",
        ),
        (http("502 Bad Gateway", b"<html>"), "The server answered Bad Gateway. (HTTP 502)"),
        (http("503 x", b"[" * 10_000, JSON), "The server answered x. (HTTP 503)"),
        (http("401 Unauthorized", b"{}", JSON), "The login comes from sasl.* or ssl.keystore.*"),
        (b"nonsense\r\n\r\n", "the answer is not HTTP, or was cut off"),
        (b"", "closed without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", "the answer is not HTTP, or was cut off"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 100_000, "the answer is not HTTP, or was cut off"),
    ],
)
def test_answers_of_other_servers_end_in_one_sentence(
    ottla: Command, serve: Callable[..., Server], answer: bytes, message: str
) -> None:
    server = serve(answer)

    assert message in ottla("rest", "GET", "/", "--url", f"http://127.0.0.1:{server.port}", code=1)


def test_a_server_that_says_nothing_is_left_after_the_timeout(
    ottla: Command, serve: Callable[..., Server]
) -> None:
    ended = threading.Event()
    server = serve(lambda one: ended.wait(30) and None)

    message = ottla(
        "rest", "GET", "/", "--url", f"http://127.0.0.1:{server.port}", "--timeout", "0.2", code=1
    )
    ended.set()

    assert "did not answer within 0.2 s" in message


def test_a_server_that_does_not_read_a_body_is_left_after_the_timeout(ottla: Command, tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(b" " * (16 << 20))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"

        message = ottla("rest", "POST", "/", "--data", f"@{path}", "--url", url, "--timeout", "0.2", code=1)

    assert "did not answer within 0.2 s" in message


def test_an_answer_that_stops_is_left_after_the_timeout(ottla: Command, serve: Callable[..., Server]) -> None:
    ended = threading.Event()

    def begin(one: socket.socket) -> None:
        one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")
        ended.wait(30)

    message = ottla(
        "rest", "GET", "/", "--url", f"http://127.0.0.1:{serve(begin).port}", "--timeout", "0.2", code=1
    )
    ended.set()

    assert "did not answer within 0.2 s" in message


def test_an_answer_of_any_size_is_printed_in_pieces(
    ottla: Command, serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_command, "MAX_HELD_BYTES", 1000)
    server = serve(http("500 x", b"x" * 100_000, JSON))
    url = f"http://127.0.0.1:{server.port}"

    message = ottla("rest", "GET", "/", "--url", url, "--output", "json", code=1)
    ottla("rest", "GET", "/", "--url", url, code=1)

    assert "without --output json it is printed in pieces" in message


# ---- TLS ----------------------------------------------------------------------------------------


def test_a_login_is_sent_over_tls_to_a_server_that_is_trusted(
    ottla: Command, serve: Callable[..., Server], tmp_path: Path
) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    server = serve(http("200 OK", b"{}", JSON), context)
    rest = f"https://127.0.0.1:{server.port}"
    trust = {"ssl.truststore.location": str(tmp_path / "ca.pem")}
    write_profiles(
        Profiles(
            None, {"p": {"rest.url": rest, **trust, **LOGIN}, "t": {**trust, **TOKEN}, "no-trust": LOGIN}
        )
    )

    ottla("rest", "GET", "/", "--profile", "p")
    ottla("rest", "GET", "/", "--profile", "t", "--url", rest)
    message = ottla("rest", "GET", "/", "--profile", "no-trust", "--url", rest, code=1)
    none = ottla("rest", "GET", "/", "--url", f"http://127.0.0.1:{server.port}", code=1)

    assert b"Authorization: Basic YW5uYTphcHBsZS1waWU=\r\n" in server.requests[0]
    assert b"Authorization: Bearer abc.def\r\n" in server.requests[1]
    assert "its certificate is not trusted" in message and len(server.requests) == 2
    assert "may use TLS" in none or "not HTTP" in none or "lost" in none
