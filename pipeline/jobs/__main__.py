"""`python -m ottla.pipeline.jobs` is `ottla pipeline`; spark-submit takes this file as its program."""

import sys

from ottla.pipeline.jobs.cli import pipeline

if __name__ == "__main__":
    sys.exit(pipeline(prog_name="ottla pipeline"))
