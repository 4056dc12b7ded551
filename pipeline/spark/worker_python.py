"""The Python that runs local workers: ours, with Spark's modules from where they are installed and compiled.

Spark puts an archive of its modules first on the path of its Python processes, and Python compiles what it
imports from an archive again in each process: 0.7 s of processor time where 0.25 s are enough. A query starts
several such processes, and fails if one does not answer within ten seconds.
"""

import os
import shlex
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pyspark

from ottla.pipeline.spark.cached_script import cache_of, cached_script

# Spark puts its archives first, twice; the rest of the path stays. It limits tasks to one thread for
# arithmetic, but not planning and committing processes: numpy's library starts one for each core there, which
# is of no use and takes 0.1 s of processor time.
WRAPPER = """#!/bin/sh
PYTHONPATH=${{PYTHONPATH##*/pyspark/python/lib/pyspark.zip:}}
PYTHONPATH=${{PYTHONPATH##*/pyspark/python/lib/py4j-*-src.zip:}}
OMP_NUM_THREADS=${{OMP_NUM_THREADS:-1}}
export PYTHONPATH OMP_NUM_THREADS
exec {python} "$@"
"""


def worker_python(environment: Mapping[str, str] = os.environ) -> str:
    """Return the program for `PYSPARK_PYTHON`: a wrapper around this process's own Python.

    It is that Python itself if Spark is not installed beside it, if the wrapper cannot be written, or if the
    system has no `sh`.
    """
    installed = {Path(sysconfig.get_path(key)).resolve() for key in ("purelib", "platlib")}
    if Path(pyspark.__file__).resolve().parents[1] not in installed or os.name != "posix":
        return sys.executable
    text = WRAPPER.format(python=shlex.quote(sys.executable))
    try:
        return str(cached_script(cache_of(environment), text, prefix="python", program="bin/python"))
    except OSError:
        return sys.executable
