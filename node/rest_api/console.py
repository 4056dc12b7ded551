"""The console's files: at `/` its page, under `/console/` what that loads, whatever the cluster does.

A browser keeps them and asks by their tags whether they changed: after an update nobody sees an old script
with a new page. The policy lets a page load what comes from here and nothing else, and run nothing that
stands in the page itself.
"""

from typing import Final

from ottla.node.console.page_files import INDEX, PageFile, is_unchanged, page_files
from ottla.node.net.peer_client import SOFTWARE_VERSION
from ottla.node.rest_api.route import Answer, Response, RestContext, RestRequest, Route

POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
)
TAG: Final = "Console"


async def who_am_i(context: RestContext, request: RestRequest) -> Answer:
    """Which node this is; from its own memory, so that a console knows it without a cluster, too."""
    return Answer(
        body={"cluster_id": context.cluster_id, "node_id": context.node_id, "version": SOFTWARE_VERSION}
    )


def _route(path: str, file: PageFile) -> Route:
    headers = {"ETag": file.etag, "Cache-Control": "no-cache", "Content-Security-Policy": POLICY}

    async def get_file(context: RestContext, request: RestRequest) -> Answer:
        if is_unchanged(request.headers.get("If-None-Match"), file.etag):
            return Answer(status=304, headers=headers)
        return Answer(content=file.content, content_type=file.content_type, headers=headers)

    return Route(
        method="GET",
        path=path,
        handler=get_file,
        operation_id=f"getPage:{path}",
        summary="A file of the console.",
        tag=TAG,
        responses={200: Response(description="The file.", media_type=file.content_type)},
        uses_cluster=False,
        is_open=True,
        is_documented=False,
    )


ROUTES: Final = (
    _route("/", page_files()[INDEX]),
    *(_route(f"/console/{path}", file) for path, file in page_files().items() if path != INDEX),
    Route(
        method="GET",
        path="/console/node",
        handler=who_am_i,
        operation_id="getConsoleNode",
        summary="The node that serves this console.",
        tag=TAG,
        responses={
            200: Response(description="Its id, its cluster's, its version.", schema={"type": "object"})
        },
        uses_cluster=False,
        is_documented=False,
    ),
)
