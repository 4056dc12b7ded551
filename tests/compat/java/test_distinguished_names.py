"""Java as the reference for names of certificates, and Apache Kafka for the rules that map them."""

import struct
from collections.abc import Sequence
from random import Random

import pytest

from ottla.node.security.distinguished_name import subject_name
from ottla.node.security.principal_rules import NoRuleError, PrincipalRules
from tests.compat.java.conftest import AskJava
from tests.unit.node.security.certificates_of_names import Name, certificate, name_der

pytestmark = [pytest.mark.java, pytest.mark.slow]

NAMES = 3_000
OIDS = [f"2.5.4.{number}" for number in (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 42, 46)]
OIDS += [
    "0.9.2342.19200300.100.1.25",
    "0.9.2342.19200300.100.1.1",
    "1.2.840.113549.1.9.1",
    "1.3.6.1.4.1.99999.1",
]
OIDS += ["2.999.1", "2.100.5", "0.0", "1.39.7"]
TAGS = [0x0C, 0x0C, 0x13, 0x13, 0x14, 0x16, 0x1B, 0x1E, 0x12, 0x1C, 0x04]
PIECES = [*"ab ,=+<>#;\"\\/'()-:?.@*&!~_\r\n\t\0", "é", "蜜", "😀", "  ", "CN=", "\u00a0"]


def random_name(random: Random) -> Name:
    def value() -> bytes:
        text = "".join(random.choices(PIECES, k=random.randint(0, 6)))
        if random.random() < 0.1:
            return text.encode() + random.choice([b"\xe9", b"\xff\xfe", b"\xc3"]) + b"z"
        return text.encode("utf-16-be" if random.random() < 0.1 else "utf-8")

    return [
        [(random.choice(OIDS), random.choice(TAGS), value()) for _ in range(random.choice((1, 1, 1, 2, 3)))]
        for _ in range(random.randint(0, 5))
    ]


def answers_of(ask_java: AskJava, *arguments: str, questions: Sequence[bytes]) -> list[str | None]:
    content = b"".join(struct.pack(">i", len(one)) + one for one in questions)
    answers = ask_java("NameReference", *arguments, questions=content).decode().split("\n")[:-1]
    return [None if one == "rejected" else bytes.fromhex(one[1:]).decode() for one in answers]


def test_java_writes_names_as_we_do(ask_java: AskJava) -> None:
    random = Random(2253)
    names = [random_name(random) for _ in range(NAMES)]

    answers = answers_of(ask_java, questions=[name_der(one) for one in names])

    # Java rejects some that OpenSSL accepts, such as characters that a PrintableString cannot have.
    taken = [(one, theirs) for one, theirs in zip(names, answers, strict=True) if theirs is not None]
    assert len(taken) > NAMES / 2
    wrong = [
        (one, theirs, ours) for one, theirs in taken if (ours := subject_name(certificate(one))) != theirs
    ]
    assert not wrong, f"{len(wrong)} of {len(taken)}: {wrong[:5]}"


RULES = r"""
RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L
RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT
RULE:CN=(T)|.*/$1./
RULE:.*/x/U
RULE:(a*)/[$1]/
RULE:([A-Z]+)=([a-z]*).*/$2@$1$3$12/,DEFAULT
RULE:^CN=(?<who>\w*).*$/${who}!\$\//
RULE:(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)(.*)/$12-$11-$123/L,DEFAULT
RULE:^(CN=)?.*$/<$1>/
RULE:\**\/+/*/L, RULE:CN=.*/$0$00/
,,RULE:^XX=(.*)$/$1/,,,RULE:^(OU=.*)$/$1/U,,
""".strip().split("\n")


def test_apache_kafka_makes_the_same_principals(ask_java: AskJava) -> None:
    names = ["", "aaa", r"CN=Tkac\, Adam,OU=ITZ", "CN=duke,OU=ServiceUsers,O=Org", "OU=x", "CN=Té", "CN=T"]
    for rules in RULES:
        content = [rules.encode(), *(name.encode() for name in names)]

        theirs = answers_of(ask_java, "rules", questions=content)

        assert [principal(rules, name) for name in names] == theirs, rules


def principal(rules: str, name: str) -> str | None:
    try:
        return PrincipalRules(rules).name_of(name)
    except NoRuleError:
        return None
