"""The parts of the build that pyproject.toml cannot say: one extension in C, and the links of src/ottla.

Where the extension does not compile it is left out; logstore/record_walk.py says what Ottla does without it.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.sdist import sdist

NAMES = Path("src", "ottla")  # has a link to the folder of each package (ARCHITECTURE.md)
BUILD = Path("build")


class FreshBuild(build):
    """A build without the modules that an earlier one left behind and that are no more."""

    def run(self) -> None:
        """Build into an empty folder; what was compiled is kept beside it."""
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class SourceArchive(sdist):
    """A source archive with the layout of the repository: each package once, and the links to them."""

    def make_release_tree(self, base_dir: str, files: Iterable[str]) -> None:
        """Copy what is not behind a link, and make the links, which setuptools would follow."""
        own = [file for file in files if not any(is_left_out(folder) for folder in Path(file).parents)]
        super().make_release_tree(base_dir, own)
        for link in sorted(NAMES.iterdir()):
            copy = Path(base_dir, link)
            if link.is_symlink() and not copy.is_symlink():
                copy.symlink_to(link.readlink())


def is_left_out(folder: Path) -> bool:
    """Return whether the source archive has no copy of what is in this folder."""
    return folder.is_symlink() or folder == BUILD


BUILD.mkdir(exist_ok=True)
setup(
    cmdclass={"build": FreshBuild, "sdist": SourceArchive},
    ext_modules=[
        Extension(
            "ottla.logstore._record_walk",
            ["src/ottla/logstore/_record_walk.c"],
            define_macros=[("Py_LIMITED_API", "0x030b0000")],
            # Without the notes for a debugger it is small, and the same wherever it is compiled.
            extra_compile_args=["-O2", "-g0", "-Wall", "-Wextra", "-Wno-unused-parameter"],
            optional=True,
            py_limited_api=True,
        )
    ],
    # An editable installation has src on its path, where notes of a build would pass for an installed Ottla.
    options={"bdist_wheel": {"py_limited_api": "cp311"}, "egg_info": {"egg_base": str(BUILD)}},
)
