"""`sasl.jaas.config` as Kafka's JaasConfig reads it."""

import pytest

from ottla.node.wire.jaas import MAX_CHARS, JaasError, parse_jaas


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ('username="anna" password="p"', {"username": "anna", "password": "p"}),
        ("username=anna password='p q'", {"username": "anna", "password": "p q"}),
        (r'password="a\"b\\c\n\101;="', {"password": 'a"b\\c\nA;='}),
        ("password='\"' // the end is ;\n x=y /* ; */", {"password": '"', "x": "y"}),
        ('user_anna="1" user_b-c.d="2"', {"user_anna": "1", "user_b-c.d": "2"}),
        ('a="x" a="y"', {"a": "y"}),
        ("", {}),
        ('password="grüße"', {"password": "grüße"}),
    ],
)
def test_options_are_read_as_java_reads_them(options: str, read: dict[str, str]) -> None:
    (module,) = parse_jaas(f"org.example.PlainLoginModule Required {options};")

    assert module.name == "org.example.PlainLoginModule" and module.flag == "required"
    assert module.options == read


def test_several_modules_are_parsed() -> None:
    modules = parse_jaas("a.B required x=y;\n# no".replace("# no", "// no") + "\nc.D optional;")

    assert [(one.name, one.flag) for one in modules] == [("a.B", "required"), ("c.D", "optional")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no login module"),
        ("  // nothing", "no login module"),
        ("a.B", "one of required"),
        ("a.B maybe;", "one of required"),
        ("a.B required", "semicolon"),
        ("a.B required user=x", "semicolon"),
        ("a.B required user;", "option after 0 others has no value"),
        ("a.B required user=;", "option after 0 others has no value"),
        ("a.B required user=x password=two words;", "option after 2 others has no value"),
        ("a.B required user=12345;", "double quotes"),
        ("a.B required user=-x;", "double quotes"),
        ('a.B required user="x;', "is unexpected"),
        ('a.B required user="x\ny";', "is unexpected"),
        ("; a.B required;", "instead of the name of a login module"),
        ("a.B required = x;", "instead of the name of an option"),
        ("a" * (MAX_CHARS + 1), "longer than"),
    ],
)
def test_an_invalid_configuration_is_rejected_without_showing_its_values(text: str, message: str) -> None:
    with pytest.raises(JaasError, match=message):
        parse_jaas(text)


@pytest.mark.parametrize(
    "text", ["s3cret", "s3cret;", "a.s3cret", "a.B required password=my s3cret;", "a.B required s3cret;"]
)
def test_a_password_in_the_wrong_place_is_not_shown(text: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_jaas(text)

    assert "s3cret" not in str(refused.value)


def test_a_module_does_not_show_its_passwords() -> None:
    assert "secret" not in repr(parse_jaas('a.B required password="secret";'))


def test_a_long_hostile_text_is_refused_in_linear_time() -> None:
    for text in ("a.B required " + '"' * 100_000, "/*" * 50_000, "a.B required x=" + "\\" * 100_000):
        with pytest.raises(JaasError):
            parse_jaas(text)
