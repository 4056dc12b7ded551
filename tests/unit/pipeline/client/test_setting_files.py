"""References `${file:/PATH:KEY}` in settings: their values, and the errors of invalid ones."""

from pathlib import Path

import pytest

from ottla.node.settings.properties_file import MAX_PROPERTIES_BYTES
from ottla.pipeline.client.setting_files import filled_in, has_reference, is_kept_in_files
from ottla.pipeline.words import OptionError

OPTION = "kafka.ssl.key.password"


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    file = tmp_path / "secrets.properties"
    file.write_text("key = s3cret-canary\nodd = ${file:/etc/passwd:root}\n# comment\nkey.two: a\\tb\n")
    return file


def test_references_are_replaced_wherever_they_stand(secrets: Path) -> None:
    text = f"a ${{file:{secrets}:key}} b ${{file:{secrets}:key.two}}"

    assert has_reference(text)
    assert filled_in(OPTION, text) == "a s3cret-canary b a\tb"


@pytest.mark.parametrize("text", ["", "plain", "$", "${NAME}", "{file:/x:y}", "$file:/x:y"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert not has_reference(text) and filled_in(OPTION, text) == text


@pytest.mark.parametrize(
    ("option", "text", "is_kept"),
    [
        ("kafka.ssl.key.password", "${file:/x:y}", True),
        ("kafka.ssl.key.password", " ${file:/x:y} ", True),
        ("kafka.ssl.key.password", "secret", False),
        ("kafka.ssl.key.password", "secret${file:/x:y}", False),
        ("kafka.sasl.jaas.config", 'a.B required username="anna" password="${file:/x:y}";', True),
        ("kafka.sasl.jaas.config", "${file:/x:y}", True),
        ("kafka.sasl.jaas.config", 'a.B required username="${file:/x:y}" password="secret";', False),
        ("kafka.sasl.jaas.config", 'a.B required token="eyJ";', False),
        ("kafka.sasl.jaas.config", "secret", False),
    ],
)
def test_a_secret_option_is_kept_in_files_if_all_its_secrets_are_references(
    option: str, text: str, is_kept: bool
) -> None:
    assert is_kept_in_files(option, text) == is_kept


def test_a_value_is_not_searched_for_references(secrets: Path) -> None:
    assert filled_in(OPTION, f"${{file:{secrets}:odd}}") == "${file:/etc/passwd:root}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${file:SECRETS}", "write ${file:/PATH:KEY}"),
        ("${file:SECRETS:key", "write ${file:/PATH:KEY}"),
        ("${file:SECRETS:key} ${file:", "write ${file:/PATH:KEY}"),
        ("${file:secrets.properties:key}", "give its whole path"),
        ("${file:SECRETS:nothing}", "the key 'nothing'"),
        ("${file:SECRETS.old:key}", "cannot be read: No such file"),
        ("${file:/:key}", "cannot be read: Is a directory"),
        ("${file:/a\0b:key}", "it is not a valid path"),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(secrets: Path, text: str, problem: str) -> None:
    with pytest.raises(OptionError) as refused:
        filled_in(OPTION, text.replace("SECRETS", str(secrets)))

    assert refused.value.option == OPTION and problem in refused.value.problem
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"#" * (MAX_PROPERTIES_BYTES + 1)])
def test_an_invalid_properties_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd").write_bytes(content)

    with pytest.raises(OptionError, match="cannot be read"):
        filled_in(OPTION, f"${{file:{tmp_path}/odd:key}}")
