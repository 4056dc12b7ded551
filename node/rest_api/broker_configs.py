"""The settings of brokers: of one broker, of every broker, and the dynamic defaults of the cluster."""

from typing import Final

from ottla.node.client.config_admin import config_of_all_brokers, config_of_broker, describe_resources
from ottla.node.client.topic_admin import ConfigResource
from ottla.node.rest_api.brokers import alive_brokers, broker_or_404
from ottla.node.rest_api.configs import (
    TAG,
    WITH_DOCUMENTATION,
    Owner,
    config_data,
    config_routes,
    config_schema,
    wants_documentation,
)
from ottla.node.rest_api.resource import Data, collection, resource_name, url
from ottla.node.rest_api.route import INT32, STRING, Answer, Response, RestContext, RestRequest, Route
from ottla.node.wire.messages.describe_configs import DescribeConfigsResourceResult

KIND: Final = "KafkaBrokerConfig"
CLUSTER_KIND: Final = "KafkaClusterConfig"
ALL_PATH: Final = "/v3/clusters/{cluster_id}/brokers/-/configs"


# ---- one broker ----------------------------------------------------------------------------------


async def _broker_resource(context: RestContext, request: RestRequest) -> ConfigResource:
    return config_of_broker((await broker_or_404(context, request)).broker_id)


def _data(
    context: RestContext,
    request: RestRequest,
    resource: ConfigResource,
    config: DescribeConfigsResourceResult,
) -> Data:
    cluster_id, broker_id = context.cluster_id, int(resource.name)
    return config_data(
        KIND,
        url(request.base_url, "clusters", cluster_id, "brokers", broker_id, "configs", config.name),
        resource_name(kafka=cluster_id, broker=broker_id, config=config.name),
        {"cluster_id": cluster_id, "broker_id": broker_id},
        config,
        request,
    )


def _list_link(context: RestContext, request: RestRequest) -> str:
    broker_id = request.path.get("broker_id", "-")
    return url(request.base_url, "clusters", context.cluster_id, "brokers", broker_id, "configs")


BROKER: Final = Owner(
    path="/v3/clusters/{cluster_id}/brokers/{broker_id}/configs",
    name="Broker",
    noun="a broker",
    schema=config_schema("BrokerConfigData", KIND, {"broker_id": INT32}),
    alter_id="updateKafkaBrokerConfigBatch",
    is_for_administrators=True,
    resource_of=_broker_resource,
    data=_data,
    list_link=_list_link,
)


async def list_all_broker_configs(context: RestContext, request: RestRequest) -> Answer:
    brokers = await alive_brokers(context)
    found = await describe_resources(
        context.client,
        [config_of_broker(broker.broker_id) for broker in brokers],
        with_documentation=wants_documentation(request),
    )
    data = [
        _data(context, request, resource, one) for resource, settings in found.items() for one in settings
    ]
    return Answer(body=collection("KafkaBrokerConfigList", _list_link(context, request), data))


# ---- all brokers ---------------------------------------------------------------------------------


async def _all_brokers_resource(context: RestContext, request: RestRequest) -> ConfigResource:
    return config_of_all_brokers()


def _cluster_data(
    context: RestContext,
    request: RestRequest,
    resource: ConfigResource,
    config: DescribeConfigsResourceResult,
) -> Data:
    cluster_id = context.cluster_id
    return config_data(
        CLUSTER_KIND,
        url(request.base_url, "clusters", cluster_id, "broker-configs", config.name),
        resource_name(kafka=cluster_id, broker_config=config.name),
        {"cluster_id": cluster_id, "config_type": "BROKER"},
        config,
        request,
    )


CLUSTER: Final = Owner(
    path="/v3/clusters/{cluster_id}/broker-configs",
    name="Cluster",
    noun="the cluster-wide broker defaults, which can be changed at run time",
    schema=config_schema("ClusterConfigData", CLUSTER_KIND, {"config_type": STRING}),
    alter_id="updateKafkaClusterConfigs",
    is_for_administrators=True,
    resource_of=_all_brokers_resource,
    data=_cluster_data,
    list_link=lambda context, request: url(
        request.base_url, "clusters", context.cluster_id, "broker-configs"
    ),
    shows_all=False,
)

ROUTES: Final = (
    *config_routes(BROKER),
    Route(
        method="GET",
        path=ALL_PATH,
        handler=list_all_broker_configs,
        operation_id="listKafkaAllBrokerConfigs",
        summary="List the settings of each broker.",
        tag=TAG,
        query=(WITH_DOCUMENTATION,),
        responses={200: Response(description="All settings of all brokers.", schema=BROKER.list_schema)},
    ),
    *config_routes(CLUSTER),
)
