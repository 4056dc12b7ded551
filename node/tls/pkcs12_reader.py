"""Program: a PKCS12 store from standard input, its key and certificates as PEM to standard output.

A process of its own, which ends at once: `cryptography` would take 10 MB of a node for good. Input: the
length of the password in bytes (decimal) and a line feed, the password, the store. It imports nothing of
ours, so that it starts quickly and runs wherever it lies. Its exit code is 1, with a sentence on standard
error, if that is no such store or the password is wrong.
"""

import sys

try:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
except ImportError:
    sys.exit("stores of the type PKCS12 need the package cryptography: pip install 'ottla[pkcs12]'")


def main() -> int:
    """Read, convert, write; return the exit code."""
    size, _, rest = sys.stdin.buffer.read().partition(b"\n")
    password, store = rest[: int(size)], rest[int(size) :]
    try:
        found = load_pkcs12(store, password or None)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    pieces = []
    if found.key is not None:
        pieces.append(found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    own = () if found.cert is None else (found.cert,)
    pieces += [one.certificate.public_bytes(Encoding.PEM) for one in (*own, *found.additional_certs)]
    sys.stdout.buffer.write(b"".join(pieces))
    return 0


if __name__ == "__main__":
    sys.exit(main())
