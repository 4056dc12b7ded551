"""The files of the console: the page at `/`, and the files that it loads under `/console/`.

They are served in any state of the cluster. A browser caches them and checks their tags on each load: after
an update no page runs an old script. The Content-Security-Policy lets a page load files of this node alone,
and run no inline scripts.
"""

from typing import Final

from ottla.node.console.page_files import INDEX, PageFile, is_unchanged, page_files
from ottla.node.net.peer_client import SOFTWARE_VERSION
from ottla.node.rest_api.route import Answer, Response, RestContext, RestRequest, Route

POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
)
TAG: Final = "Console"


async def get_node(context: RestContext, request: RestRequest) -> Answer:
    """Return the node's identity from its own memory, so that the console has it even while the cluster is
    down.
    """
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
        handler=get_node,
        operation_id="getConsoleNode",
        summary="The node that serves this console.",
        tag=TAG,
        responses={
            200: Response(
                description="Its id, the id of its cluster, and its version.", schema={"type": "object"}
            )
        },
        uses_cluster=False,
        is_documented=False,
    ),
)
