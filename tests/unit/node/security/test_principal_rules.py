"""`ssl.principal.mapping.rules`, with the cases of Apache Kafka's own test, and RE2's limits."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.security.principal_rules import NoRuleError, PrincipalRules

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    "rules",
    [
        "DEFAULT",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1@$2/U",
        "RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/",
        "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/",
        "",
        ",   , , ,      , , ,   ",
        ",,RULE://,,,DEFAULT,,",
        "     ,  , RULE:   /  /U    ,,  ,DEFAULT, ,",
        r"RULE:\/\\\(\)\n\t/\/\/\//",
    ],
)
def test_rules_of_apache_kafka_are_accepted(rules: str) -> None:
    assert PrincipalRules(rules).text == rules


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:^CN=((.*)$/$1/",  # unbalanced parenthesis
        "RULE:CN=(?=a).*/a/",  # RE2 has no look-ahead
        r"RULE:CN=(.*),OU=\1/a/",  # nor backreferences
        "RULE:CN=.*/$1/",  # the pattern has no group
        "RULE:CN=(.*)/$/",
        "RULE:CN=(.*)/${none}/",
        "RULE:CN=" + "a" * 40_000 + "/b/",
    ],
)
def test_an_invalid_rule_is_rejected(rules: str) -> None:
    with pytest.raises(KafkaError) as refused:
        PrincipalRules(rules)

    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert "ssl.principal.mapping.rules" in refused.value.detail


@pytest.mark.parametrize(
    ("name", "principal"),
    [
        (DUKE, "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_matches_makes_the_name(name: str, principal: str) -> None:
    rules = PrincipalRules(
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
    )

    assert rules.name_of(name) == principal


@pytest.mark.parametrize(
    ("rule", "principal"),
    [
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/", r"Tkac\, Adam"),  # commas within a name
        ("RULE:^CN=Tkac.*$/a$0b/", r"aCN=Tkac\, Adam,DC=czb"),
        ("RULE:^CN=(T)(k).*$/$1$2$3$12/", "Tk$3T2"),
        ("RULE:^CN=(?P<who>T).*$/${who}!/", "T!"),
        (r"RULE:^CN=(T).*$/\$1\//", "$1/"),
        ("RULE:CN=(T)|.*/$1./", "T..."),  # matches CN=T, then the rest, then the empty text at the end
        ("RULE:.*/x/", "xx"),  # matches all, then the empty text at the end
        ("RULE:^CN=(Q)?.*$/[$1]/", "[]"),  # a group that did not match
    ],
)
def test_a_replacement_has_javas_notation(rule: str, principal: str) -> None:
    assert PrincipalRules(f"{rule},DEFAULT").name_of(r"CN=Tkac\, Adam,DC=cz") == principal


def test_a_client_that_no_rule_matches_is_rejected() -> None:
    with pytest.raises(NoRuleError, match="applies to CN=Duke"):
        PrincipalRules("RULE:^CN=Mallory$/m/").name_of(DUKE)


def test_a_pattern_with_exponential_backtracking_takes_linear_time() -> None:
    rules = PrincipalRules("RULE:^(a|aa|a*)*$/x/,DEFAULT")
    name = "a" * 20_000 + "b"

    assert rules.name_of(name) == name
