"""`tests/conftest.py` ends session fixtures with their folder, tested in a small run of pytest."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
from tests.conftest import SharedFixtures
def pytest_configure(config):
    config.pluginmanager.register(SharedFixtures())
"""
SHARED = """
import pathlib, pytest
@pytest.fixture(scope="session")
def server():
    yield
    pathlib.Path("ended").touch()
@pytest.fixture(scope="session")
def broken_server():
    yield
    raise OSError("does not end")
"""
USES = "import pathlib\ndef test(server, broken_server): assert not pathlib.Path('ended').exists()"
LATER = "import pathlib\ndef test(): assert pathlib.Path('ended').exists()"


def test_shared_fixtures_of_a_folder_end_when_it_is_left_and_not_before(tmp_path: Path) -> None:
    files = {
        "tests_there/conftest.py": CONFTEST,
        "tests_there/a/conftest.py": SHARED,
        "tests_there/a/test_one.py": USES,
        "tests_there/a/test_other.py": USES,
        "tests_there/b/test_later.py": LATER,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--import-mode=importlib", "-p", "no:cacheprovider", "tests_there"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "3 passed, 1 error" in done.stdout and "does not end" in done.stdout, done.stdout
