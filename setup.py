"""The part of the build that pyproject.toml cannot say: one extension in C.

Where it does not compile it is left out; what Ottla does without it stands in logstore/record_walk.py.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "ottla.logstore._record_walk",
            ["src/ottla/logstore/_record_walk.c"],
            define_macros=[("Py_LIMITED_API", "0x030b0000")],
            extra_compile_args=["-O2", "-Wall", "-Wextra", "-Wno-unused-parameter"],
            optional=True,
            py_limited_api=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
