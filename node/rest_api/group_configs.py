"""The settings of groups of any type; a group may have settings before it exists."""

from typing import Final

from ottla.node.client.topic_admin import ConfigResource, config_of_group
from ottla.node.rest_api.configs import Owner, config_data, config_routes, config_schema
from ottla.node.rest_api.resource import Data, resource_name, url
from ottla.node.rest_api.route import STRING, RestContext, RestRequest
from ottla.node.wire.messages.describe_configs import DescribeConfigsResourceResult

KIND: Final = "KafkaGroupConfig"


async def _group_resource(context: RestContext, request: RestRequest) -> ConfigResource:
    return config_of_group(request.path["group_id"])


def _data(
    context: RestContext,
    request: RestRequest,
    resource: ConfigResource,
    config: DescribeConfigsResourceResult,
) -> Data:
    cluster_id = context.cluster_id
    return config_data(
        KIND,
        url(request.base_url, "clusters", cluster_id, "groups", resource.name, "configs", config.name),
        resource_name(kafka=cluster_id, group=resource.name, config=config.name),
        {"cluster_id": cluster_id, "group_id": resource.name},
        config,
        request,
    )


def _list_link(context: RestContext, request: RestRequest) -> str:
    group_id = request.path["group_id"]
    return url(request.base_url, "clusters", context.cluster_id, "groups", group_id, "configs")


GROUP: Final = Owner(
    path="/v3/clusters/{cluster_id}/groups/{group_id}/configs",
    name="Group",
    noun="a group",
    schema=config_schema("GroupConfigData", KIND, {"group_id": STRING}),
    alter_id="updateKafkaGroupConfigBatch",
    resource_of=_group_resource,
    data=_data,
    list_link=_list_link,
)

ROUTES: Final = config_routes(GROUP)
