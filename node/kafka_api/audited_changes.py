"""Writes the changes that a client requested to the audit log when their outcome is known."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Final, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.audit.audit_event import CLUSTER, Kind
from ottla.node.audit.audit_log import AuditLog
from ottla.node.kafka_api.changes import ChangeOutcome, Changes
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import BuiltInThread, Delayed, EncodedBody, Result
from ottla.node.work.turns import Steps

R = TypeVar("R")

# In one request; the rest is counted.
MAX_LOGGED: Final = 500
# Logged in place of an error code if the client disconnected before its response was made.
LEFT: Final = "CLIENT_DISCONNECTED"
# A client whose response is not made this long after the outcome is known has disconnected.
LEFT_AFTER_S: Final = 1.0
# Already logged as denials, with the ACL.
_REFUSALS: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


class AuditedChanges:
    """The changes of one request; `wrap` wraps the result of its handler."""

    __slots__ = ("_audit", "_changes", "_context", "_has_answer", "_request", "_response_class")

    def __init__(
        self,
        audit: AuditLog,
        changes: Changes,
        context: RequestContext,
        request: object,
        response_class: type,
    ) -> None:
        self._audit = audit
        self._changes = changes
        self._context = context
        self._request = request
        self._response_class = response_class
        self._has_answer = False  # or the disconnect of the client was logged

    def wrap(self, result: Result[R]) -> Result[R]:
        """Return the result, wrapped so that the changes are logged when the response is complete."""
        if type(result) in (self._response_class, EncodedBody):
            self.log_response(result)
            return result
        if type(result) is Delayed:
            build = result.answer

            def answer(outcome: object) -> Result[R]:
                has_left, self._has_answer = self._has_answer, True
                built = build(outcome)
                return built if has_left else self.wrap(built)

            if isinstance(result.future, asyncio.Future):
                result.future.add_done_callback(self._expect_response)
            return result._replace(answer=answer)
        if type(result) is BuiltInThread:
            make = result.make
            return result._replace(make=lambda: self.wrap(make()))
        if result is None or not isinstance(result, Awaitable):
            return result
        return self._awaited(result)

    async def _awaited(self, result: Awaitable[Result[R]]) -> Result[R]:
        try:
            awaited = await result
        except KafkaError as error:
            self.failed(error)
            raise
        return self.wrap(awaited)

    def _expect_response(self, future: "asyncio.Future[object]") -> None:
        future.get_loop().call_later(LEFT_AFTER_S, self._log_disconnect)

    def _log_disconnect(self) -> None:
        """Log a change whose client left before its response: disconnecting at once must not hide it."""
        if not self._has_answer:
            self._has_answer = True
            self._log(self._changes(self._request, self._response_class()), LEFT)

    def log_response(self, response: object) -> None:
        """Log the changes with their outcomes in the response."""
        self._log(self._changes(self._request, response))

    def steps(self, response: object) -> Steps[None]:
        """Return the steps that log the changes of a large request; other work may run between them."""
        return self._steps(self._changes(self._request, response))

    def failed(self, error: KafkaError) -> None:
        """Log that the request failed as a whole."""
        try:
            response = self._response_class(error_code=error.code)
        except TypeError:  # its responses have no such field
            self._log((ChangeOutcome(CLUSTER, "", error.code),))
        else:
            self.log_response(response)

    def _log(self, outcomes: Iterable[ChangeOutcome], outcome: str = "") -> None:
        """Log changes with their error codes, or with the same outcome for all."""
        for _ in self._steps(outcomes, outcome):
            pass

    def _steps(self, outcomes: Iterable[ChangeOutcome], outcome: str = "") -> Steps[None]:
        access, api = self._context.access, self._context.api_name
        logged = rest = 0
        for one in outcomes:
            yield
            if one.error_code in _REFUSALS:
                continue
            if logged == MAX_LOGGED:
                rest += 1
                continue
            logged += 1
            self._audit.changed(
                access.principal,
                access.host,
                api,
                one.resource_type,
                one.resource_name,
                outcome or _code_name(one.error_code),
                one.detail,
            )
        if rest:
            self._audit.left_out(Kind.CHANGE, access.principal, access.host, rest)


def _code_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
