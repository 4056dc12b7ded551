"""An HTTP GET from any address of this machine, and a process that requests /healthz repeatedly.

`python -m attacks.probes URL` sends requests until its input ends, then prints as JSON the number of
requests, the longest time of a response, and the failures. It is a process of its own, as a kubelet is:
within the process of an attack it would wait for the attack's threads.
"""

import http.client
import json
import sys
import threading
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

PROBE_TIMEOUT_S: Final = 5.0
PROBE_PAUSE_S: Final = 0.1
ATTACKER: Final = "127.0.0.1"
TIMEOUT_S: Final = 120.0


def get(
    url: str,
    path: str,
    *,
    source: str = ATTACKER,
    timeout_s: float = TIMEOUT_S,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """Send one GET from an address of this machine; return status and body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(
        str(parts.hostname), parts.port, timeout=timeout_s, source_address=(source, 0)
    )
    try:
        connection.request("GET", path, headers=dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def main(url: str) -> None:
    """Send requests until the input ends, and print the measurements."""
    is_over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
    requests, longest_s, failures = 0, 0.0, []
    while True:
        began = time.monotonic()
        try:
            status, _ = get(url, "/healthz", timeout_s=PROBE_TIMEOUT_S)
        except (OSError, http.client.HTTPException) as error:
            failures.append(type(error).__name__)
        else:
            if status != 200:
                failures.append(str(status))
        requests += 1
        longest_s = max(longest_s, time.monotonic() - began)
        if is_over.wait(PROBE_PAUSE_S):
            break
    print(json.dumps({"requests": requests, "longest_s": longest_s, "failures": failures}))


if __name__ == "__main__":
    main(sys.argv[1])
