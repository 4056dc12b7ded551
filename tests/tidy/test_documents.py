"""Commands, scripts and settings in the documents exist, and all that exist are in the documents."""

import os
import re
import shlex
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from ottla.node.cli.app import app
from ottla.node.cli.host_nodes import derive_nodes
from ottla.node.settings.config import BROKER_CONFIG_DEF, parse_config
from ottla.node.settings.properties_file import parse_properties
from tests.pages import ROOT, blocks_of, page_blocks, pages

SCRIPTS = sorted(path for path in (ROOT / "scripts").iterdir() if path.is_file() and os.access(path, os.X_OK))
DOCUMENTS = [*sorted({*ROOT.glob("*.md"), *pages()}), ROOT / "k8s" / "README.md"]
MAX_HELP_LINES = 5
MAX_README_LINES = 150
LANGUAGES = ("sh", "python", "text", "yaml", "properties", "java")
LONG_HELP = {
    "attack",
    "bench",
    "chaos",
    "dump-log",
    "dump-wire",
    "kafka-reference",
    "messages",
    "same-code",
}  # their help lists so many options that it is longer


def commands_in(path: Path) -> list[list[str]]:
    """Return every `ottla ...` command of a document, as words."""
    text = path.read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", "").splitlines()]
    lines += re.findall(r"`(ottla [^`]+)`", text)
    parts = [part for line in lines for part in re.split(r"\|+|&+|;", line)]
    found = [re.match(r" *(?:[(]|[A-Z_]+=\S* )?(ottla .*)", part) for part in parts]
    return [shlex.split(one[1], comments=True)[1:] for one in found if one is not None]


def find(words: list[str]) -> tuple[object, list[str]]:
    """Return the command that these words call, and the words after its name."""
    command = typer.main.get_command(app)
    rest = list(words)
    while rest and isinstance(command, TyperGroup) and not rest[0].startswith("-"):
        found = command.get_command(None, rest.pop(0))
        assert found is not None, f"there is no command ottla {' '.join(words)}"
        command = found
    return command, rest


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_in_the_documents_exist(path: Path) -> None:
    for words in commands_in(path):
        command, rest = find(words)
        if words[:2] == ["log", "dump"]:
            continue  # takes its own options
        options = {name for one in command.params for name in one.opts}  # type: ignore[attr-defined]

        for word in rest:
            if word.startswith("-") and not re.fullmatch(r"-[0-9]*", word):
                assert word.partition("=")[0] in options | {"--help"}, f"{path.name}: {words}"


def test_the_documents_show_every_interface() -> None:
    groups = {"topic", "log", "cluster", "quorum", "broker", "group", "txn", "pipeline"}
    commands = [words for page in pages() for words in commands_in(page)]
    shown = {" ".join(words[:2]) if words[0] in groups else words[0] for words in commands}

    assert {"start", "produce", "consume", "topic create", "topic describe", "log dump"} <= shown
    assert {"cluster up", "cluster start-node", "quorum status", "quorum add", "quorum remove"} <= shown
    assert {"group list", "group describe", "group members", "group lag"} <= shown
    assert {"group reset", "group delete", "group delete-offsets"} <= shown
    assert {"txn list", "txn describe", "txn abort", "txn producers", "txn find-hanging"} <= shown
    assert {"doctor", "pipeline run", "pipeline validate", "pipeline status"} <= shown
    assert {"broker list", "broker decommission", "topic reassign", "topic elect"} <= shown


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= MAX_README_LINES


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_code_that_no_test_runs_says_why(page: Path) -> None:
    for block in blocks_of(page):
        assert block.language in LANGUAGES, f"{page.name}, line {block.line}: {block.language!r}"
        if block.title is None and block.language in ("sh", "python"):
            assert block.is_run or block.reason_not_to_run, f"{page.name}, line {block.line}"


def test_the_settings_of_several_hosts_start_a_node() -> None:
    [plain] = page_blocks("docs/cluster.md", "properties", title="server.properties")
    [with_tls] = page_blocks("docs/cluster.md", "properties", title="tls.properties")

    # The secret comes from the environment.
    secret = {"cluster.secret": "0123456789abcdef"}
    config = parse_config({**parse_properties(plain.encode()), **secret})
    tls = parse_config({**parse_properties((plain + with_tls).encode()), **secret})

    assert config.is_voter and len(config.controller_quorum_voters) == 3
    assert [one.security_protocol for one in tls.controller_listeners] == ["SSL"] and tls.warnings == ()
    assert config.warnings == ()


def test_the_settings_of_separate_controllers_and_brokers_start_nodes() -> None:
    for title, is_voter in (("controller.properties", True), ("broker.properties", False)):
        [block] = page_blocks("docs/cluster.md", "properties", title=title)
        config = parse_config({**parse_properties(block.encode()), "cluster.secret": "0123456789abcdef"})

        assert (config.is_voter, config.is_broker, config.warnings) == (is_voter, not is_voter, ())


def test_the_settings_of_a_host_of_many_cores_start_its_nodes() -> None:
    [block] = page_blocks("docs/cluster.md", "properties", title="host1.properties")
    settings = {**parse_properties(block.encode()), "cluster.secret": "0123456789abcdef"}

    for number, node in enumerate(derive_nodes(settings, 4, memory_bytes=8 << 30)):
        config = parse_config(settings | dict(one.split("=", 1) for one in node.overrides))
        assert (config.node_id, config.broker_rack, config.is_voter) == (10 + number, "host-10", not number)
        assert [one.port for one in config.listeners] == [9092 + number]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_says_in_a_few_lines_what_it_does(script: Path) -> None:
    done = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    lines = done.stdout.strip().splitlines()
    assert lines
    if script.name not in LONG_HELP:
        assert len(lines) <= MAX_HELP_LINES, done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shell_scripts_are_short(script: Path) -> None:
    text = script.read_text()
    if "python" not in text.splitlines()[0]:
        assert len(text.splitlines()) <= 20


def test_every_script_is_in_the_documents() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()

    missing = [script.name for script in SCRIPTS if f"scripts/{script.name}" not in text]
    assert missing in ([], ["setup"]), "scripts/setup is called by the others"


def test_every_command_and_option_has_a_description() -> None:
    def check(command: object, name: str) -> None:
        assert getattr(command, "help", None), f"{name} has no help"
        if isinstance(command, TyperGroup):
            for child in command.list_commands(None):
                check(command.get_command(None, child), f"{name} {child}")

    check(typer.main.get_command(app), "ottla")


def test_every_setting_is_documented() -> None:
    undocumented = [key.name for key in BROKER_CONFIG_DEF.keys.values() if not key.documentation]

    assert undocumented == []


def test_files_name_the_current_version() -> None:
    files = [*DOCUMENTS, *(ROOT / "packaging").rglob("*.yaml"), *(ROOT / "k8s").glob("*Dockerfile")]
    named = {
        (str(path.relative_to(ROOT)), found)
        for path in files
        if path.name != "CHANGELOG.md"
        for found in re.findall(
            r"\bottla(?:-spark)?[:-]([0-9]+\.[0-9]+\.[0-9]+(?:\.dev[0-9]+)?)", path.read_text()
        )
    }

    assert {"README.md", "packaging/compose/one-node.yaml", "k8s/spark.Dockerfile"} <= {
        path for path, _ in named
    }
    assert {(path, one) for path, one in named if one != version("ottla")} == set()
