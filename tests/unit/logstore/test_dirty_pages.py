"""The decision to pause large writers, by the dirty pages in /proc/vmstat."""

import mmap
from pathlib import Path

import pytest

from ottla.logstore.dirty_pages import (
    MAX_PAUSE_S,
    NO_PAUSE_S,
    READ_EVERY_S,
    USUAL_WRITEBACK_BYTES,
    DirtyPages,
)

BACKGROUND, THRESHOLD = 100_000, 200_000
NEAR = 125_000  # half-way from the first to the middle of both, where the kernel begins to block writers


class Machine:
    """A fake /proc/vmstat, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.now_s = 1.0
        self._path = folder / "vmstat"
        self.report()
        self.dirty_pages = DirtyPages(self._path, lambda: self.now_s)

    def report(self, dirty: int = 0, writeback: int = 0) -> None:
        words = {
            "nr_free_pages": 5,
            "nr_dirty": dirty,
            "nr_writeback": writeback,
            "nr_dirtied": 10**9,
            "nr_dirty_threshold": THRESHOLD,
            "nr_dirty_background_threshold": BACKGROUND,
        }
        self._path.write_text("".join(f"{name} {number}\n" for name, number in words.items()))

    def after(self, seconds: float) -> bool:
        """Return True if large writers must wait, `seconds` later."""
        self.now_s += seconds
        return self.dirty_pages.must_pause()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("dirty", "writeback", "expected"),
    [
        (0, 0, False),
        (NEAR, 0, False),
        (NEAR + 1, 0, True),
        (NEAR - 1000, 1001, True),
        (BACKGROUND, NEAR - BACKGROUND, False),
    ],
)
def test_writers_are_paused_before_the_kernel_blocks_them(
    machine: Machine, dirty: int, writeback: int, expected: bool
) -> None:
    machine.report(dirty, writeback)
    assert machine.after(1) is expected


def test_a_reading_is_used_for_a_while(machine: Machine) -> None:
    assert not machine.after(0)
    machine.report(THRESHOLD)

    assert not machine.after(READ_EVERY_S / 2)
    assert machine.after(READ_EVERY_S)
    machine.report(0)
    assert machine.after(READ_EVERY_S / 2)
    assert not machine.after(READ_EVERY_S)


def test_after_a_pause_without_effect_the_kernel_divides_the_disk_for_a_while(machine: Machine) -> None:
    machine.report(THRESHOLD)

    assert machine.after(0)
    assert machine.after(MAX_PAUSE_S)
    assert not machine.after(READ_EVERY_S)
    assert not machine.after(NO_PAUSE_S - READ_EVERY_S)
    assert machine.after(2 * READ_EVERY_S), "and then large writers are paused again"
    assert machine.after(MAX_PAUSE_S - 2 * READ_EVERY_S)
    assert not machine.after(3 * READ_EVERY_S)


def test_the_disk_is_busy_while_the_kernel_writes_back(machine: Machine) -> None:
    usual = USUAL_WRITEBACK_BYTES // mmap.PAGESIZE
    seen = []
    for dirty, writeback in ((0, usual), (0, usual + 1), (BACKGROUND // 2, 0), (BACKGROUND // 2 + 1, 0)):
        machine.report(dirty, writeback)
        machine.now_s += 1
        seen.append(machine.dirty_pages.is_writing_back())
    assert seen == [False, True, False, True]


def test_without_vmstat_no_writer_is_paused(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text("nr_free_pages 7\nnr_dirty 9\n")
    assert not machine.after(1) and not machine.dirty_pages.is_writing_back()

    nowhere = DirtyPages(tmp_path / "missing")
    assert not nowhere.must_pause() and not nowhere.is_writing_back()


def test_this_machines_vmstat_has_the_expected_names() -> None:
    if not Path("/proc/vmstat").exists():
        pytest.skip("there is no /proc/vmstat")
    content = Path("/proc/vmstat").read_text()
    names = ("nr_dirty", "nr_writeback", "nr_dirty_threshold", "nr_dirty_background_threshold")
    assert all(f"\n{name} " in content for name in names)
    DirtyPages().must_pause()  # reads it without an error
