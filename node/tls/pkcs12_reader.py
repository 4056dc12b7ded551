"""A program that converts a PKCS12 store on standard input to PEM on standard output.

It runs in a short-lived process of its own, since `cryptography` would occupy 10 MB of a node for good.
Input: the length of the password in bytes (decimal) and a line feed, the password, the store. It imports none
of our modules, so that it starts quickly and runs from anywhere. If the input is not a PKCS12 store or the
password is wrong, it prints a sentence to standard error and exits with 1.
"""

import sys

try:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
except ImportError:
    sys.exit("stores of the type PKCS12 need the package cryptography: pip install 'ottla[pkcs12]'")


def main() -> int:
    """Read, convert and write; return the exit code."""
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
