"""All public values that depend on the cluster's secret are derived from the cluster key."""

import hashlib
import hmac
import re
from pathlib import Path

from ottla.metadata_raft.raft_link import LinkSettings
from ottla.node.net.act_for import ActingSecrets
from ottla.node.security import cluster_key as module
from ottla.node.security.cluster_key import cluster_key
from ottla.node.settings.config import parse_config
from ottla.node.start.foundation import make_foundation
from ottla.node.start.log_dirs import new_cluster_id
from ottla.node.start.login_key import find_login_key
from ottla.node.start.world import World

ROOT = Path(__file__).parents[4]
SECRET = "sixteen characters"
VOTERS = "0@a:9093,1@b:9093"
SETTINGS = {
    "cluster.secret": SECRET,
    "controller.quorum.voters": VOTERS,
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093",
}


def test_each_guess_costs_time_and_memory() -> None:
    """RFC 7914: the memory of a guess is 128 * N * r bytes."""
    assert 128 * module.COST * module.BLOCK == 32 << 20
    weak = hashlib.scrypt(SECRET.encode(), salt=module.SALT, n=2, r=module.BLOCK, p=1, dklen=32)

    assert cluster_key(SECRET) not in (weak, hashlib.sha256(SECRET.encode()).digest())
    assert cluster_key(SECRET) != cluster_key(SECRET + ".") and len(cluster_key(SECRET)) == 32


def test_public_values_are_derived_from_the_cluster_key(tmp_path: Path) -> None:
    base = make_foundation(parse_config({"log.dirs": str(tmp_path), **SETTINGS}), World())
    key, raw = cluster_key(SECRET), SECRET.encode()

    assert base.peer_gate is not None and base.peer_gate.secret == key
    assert isinstance(base.acting, ActingSecrets) and base.acting.of_cluster == key
    for secret in (key, base.acting.own, raw):
        for text in (repr(base.peer_gate), f"{base.acting}", str(base)):
            assert repr(bytes(secret))[2:-1] not in text
    links = LinkSettings(identity=base.identity(), secret=key, listen=("", 0))  # type: ignore[arg-type]
    assert repr(key)[2:-1] not in f"{links}"
    made = [find_login_key(base), new_cluster_id(base)]
    for label in (b"ottla login key ", b"ottla cluster id "):
        for number in (b"1", b"2"):
            for rest in (b"", b":" + VOTERS.encode()):
                guess = hmac.digest(raw, label + number + rest, "sha256")
                assert guess not in made and guess[1:16] != made[1][1:]


def test_no_other_code_uses_the_secret_itself() -> None:
    """A new part of a node that uses the secret itself may one day reveal a hash of it to unknown clients."""
    taken = [
        (path.relative_to(ROOT).as_posix(), line.strip())
        for path in sorted((ROOT / "node").rglob("*.py"))
        for line in path.read_text().splitlines()
        if re.search(r"cluster_secret(\b.*)?\.encode\(", line)
    ]

    assert taken == []
