"""Renders an overlay of k8s/ with kustomize."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
OVERLAYS = ("one-node", "three-nodes", "external-access", "secure")
Object = dict[str, Any]


def why_no_kustomize() -> str | None:
    """Return why nothing can be rendered here; None if it can."""
    if _kustomize() is None:
        return "kustomize is not installed: scripts/setup builds it where there is go"
    return None


def _kustomize() -> list[str] | None:
    """Return the command of kustomize: from scripts/setup, the system or kubectl; None without any."""
    own = Path(sys.prefix) / "bin" / "kustomize"
    found = str(own) if own.exists() else shutil.which("kustomize")
    if found is not None:
        return [found, "build"]
    return ["kubectl", "kustomize"] if shutil.which("kubectl") else None


def render(folder: str) -> list[Object]:
    """Return the objects of a folder in k8s/; skip the test without kustomize."""
    reason = why_no_kustomize()
    if reason is not None:
        pytest.skip(reason)
    return _render(folder)


@functools.cache
def _render(folder: str) -> list[Object]:
    command = _kustomize()
    assert command is not None
    done = subprocess.run(
        [*command, str(ROOT / "k8s" / folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "KUBECONFIG": os.devnull},
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def overlay(name: str) -> list[Object]:
    """Return the objects of an overlay."""
    return render(f"overlays/{name}")


def find(objects: list[Object], kind: str, name: str) -> Object:
    """Return the only object of this kind and name; names of generated ConfigMaps end in a hash."""
    [found] = [
        one
        for one in objects
        if one["kind"] == kind
        and (one["metadata"]["name"] == name or (kind == "ConfigMap" and _base(one) == name))
    ]
    return found


def _base(generated: Object) -> str:
    return str(generated["metadata"]["name"]).rpartition("-")[0]
