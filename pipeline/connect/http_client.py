"""Requests with retries, by urllib3: its pools, timeouts, growing pauses, and `Retry-After`.

Redirects are not followed: a POST that is redirected has the wrong URL. Only as much of an answer is read
as a message needs, and for no longer than a request may take. urllib3 itself reads an answer to its end
before a retry, and some answers never end.
"""

from dataclasses import dataclass
from typing import Final

import urllib3
from urllib3.exceptions import HTTPError, InvalidHeader, MaxRetryError

from ottla.logstore.words.escaped_text import escape_controls
from ottla.pipeline.client.clock import monotonic_ms
from ottla.pipeline.connect.http_options import IDEMPOTENCY_KEY, HttpOptions
from ottla.pipeline.connect.http_requests import RETRIED
from ottla.pipeline.words import without_secrets

MAX_ANSWER_BYTES: Final = 4096
SHOWN_CHARACTERS: Final = 200
JITTER: Final = 0.2


class HttpFailure(Exception):
    """A request without an answer, or an answer that is no record's fault; stops the query."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A status, and the beginning of its body, without secrets."""

    status: int
    text: str


class HttpClient:
    """The connections of one task to a web hook."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._secrets = options.secrets
        backoff_s = options.retry_backoff_ms / 1000
        self._retries = urllib3.Retry(
            total=options.max_retries,
            redirect=0,
            status_forcelist=RETRIED,
            allowed_methods=None,  # each request has an idempotency key
            backoff_factor=backoff_s,
            backoff_max=options.retry_backoff_max_ms / 1000,
            backoff_jitter=backoff_s * JITTER,
            retry_after_max=options.retry_after_max_ms // 1000,
        )
        timeout = urllib3.Timeout(
            connect=options.connection_timeout_ms / 1000, read=options.request_timeout_ms / 1000
        )
        self._pool = urllib3.PoolManager(timeout=timeout)

    def send(self, body: bytes, content_type: str, key: str) -> Answer:
        """Return the last answer, after all attempts; HttpFailure if there was none."""
        headers = {**self._options.headers, "Content-Type": content_type, IDEMPOTENCY_KEY: key}
        retries = self._retries
        while True:
            try:
                answer = self._request(body, headers)
            except ValueError as error:  # of the request itself
                raise self._failure("the request cannot be sent", error) from None
            except HTTPError as error:
                retries = self._after_failure(retries, error)
                retries.sleep()
                continue
            text = self._beginning_of(answer).decode(errors="replace")
            shown = Answer(status=answer.status, text=self._shown(text))
            if not retries.is_retry(self._options.method, answer.status, "Retry-After" in answer.headers):
                return shown
            try:
                retries = retries.increment(self._options.method, response=answer)
            except MaxRetryError:
                return shown
            try:
                retries.sleep(answer)
            except InvalidHeader:  # a `Retry-After` that is not a time
                retries.sleep()

    def close(self) -> None:
        self._pool.clear()

    def _request(self, body: bytes, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        """Make one attempt, until the status is there."""
        return self._pool.request(
            self._options.method,
            self._options.url,
            body=body,
            headers=headers,
            retries=False,
            redirect=False,
            preload_content=False,
        )

    def _after_failure(self, retries: urllib3.Retry, error: HTTPError) -> urllib3.Retry:
        """Return the remaining attempts after one without an answer; HttpFailure if none is left."""
        try:
            return retries.increment(self._options.method, error=error)
        except MaxRetryError:
            attempts = self._options.max_retries + 1
            raise self._failure(f"no answer (attempts: {attempts})", error) from None

    def _failure(self, problem: str, cause: Exception) -> HttpFailure:
        return HttpFailure(self._options.shown_url, f"{problem}: {escape_controls(self._shown(str(cause)))}")

    def _beginning_of(self, answer: urllib3.BaseHTTPResponse) -> bytes:
        """Return as much of a body as a message needs; an error here is ignored, as the status is known."""
        until_ms = monotonic_ms() + self._options.request_timeout_ms
        found = b""
        try:
            while len(found) < MAX_ANSWER_BYTES and monotonic_ms() < until_ms:
                piece = answer.read1(MAX_ANSWER_BYTES - len(found), decode_content=False)
                if not piece:
                    break
                found += piece
        except HTTPError:
            pass
        answer.release_conn() if answer.length_remaining == 0 else answer.close()
        return found

    def _shown(self, text: str) -> str:
        """Return text of a server or urllib3 without secrets: both often repeat the URL."""
        return without_secrets(text, self._secrets)[:SHOWN_CHARACTERS]
