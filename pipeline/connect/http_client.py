"""Requests with attempts, by urllib3: its pools, time-outs, pauses that grow, and `Retry-After`.

Redirects are not followed: a POST that is answered by one has the wrong URL. Of an answer no more is read
than a message needs.
"""

from dataclasses import dataclass
from typing import Final

import urllib3
from urllib3.exceptions import HTTPError, MaxRetryError

from pipeline.connect.http_options import IDEMPOTENCY_KEY, HttpOptions
from pipeline.connect.http_requests import RETRIED
from pipeline.words import without_secrets

MAX_ANSWER_BYTES: Final = 4096
SHOWN_CHARACTERS: Final = 200
JITTER: Final = 0.2


class HttpFailure(Exception):
    """A request that no attempt got an answer to, or one that is no fault of a record; stops the query."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A status, and the beginning of what came with it, without secrets."""

    status: int
    text: str


class HttpClient:
    """One task's connections to a web hook."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._secrets = options.secrets
        backoff_s = options.retry_backoff_ms / 1000
        retries = urllib3.Retry(
            total=options.max_retries,
            redirect=0,
            status_forcelist=RETRIED,
            allowed_methods=None,  # an idempotency key goes with each request
            backoff_factor=backoff_s,
            backoff_max=options.retry_backoff_max_ms / 1000,
            backoff_jitter=backoff_s * JITTER,
            retry_after_max=options.retry_after_max_ms // 1000,
            raise_on_status=False,
        )
        timeout = urllib3.Timeout(
            connect=options.connection_timeout_ms / 1000, read=options.request_timeout_ms / 1000
        )
        self._pool = urllib3.PoolManager(retries=retries, timeout=timeout)

    def send(self, body: bytes, content_type: str, key: str) -> Answer:
        """The last answer, after all attempts; HttpFailure where there was none."""
        headers = {**self._options.headers, "Content-Type": content_type, IDEMPOTENCY_KEY: key}
        try:
            answer = self._pool.request(
                self._options.method,
                self._options.url,
                body=body,
                headers=headers,
                redirect=False,
                preload_content=False,
            )
            text = answer.read(MAX_ANSWER_BYTES, decode_content=False).decode(errors="replace")
            answer.release_conn() if answer.length_remaining == 0 else answer.close()
        except (HTTPError, ValueError) as error:
            cause = error.reason if isinstance(error, MaxRetryError) else error
            problem = f"no answer after {self._options.max_retries} retries: {self._shown(str(cause))}"
            raise HttpFailure(self._options.shown_url, problem) from None
        return Answer(status=answer.status, text=self._shown(text))

    def close(self) -> None:
        self._pool.clear()

    def _shown(self, text: str) -> str:
        """What a server or urllib3 says: both like to repeat the URL."""
        return without_secrets(text, self._secrets)[:SHOWN_CHARACTERS]
