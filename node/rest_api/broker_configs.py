"""The settings of brokers: of one, of each, and those that were set for all while they ran."""

from collections.abc import Sequence
from typing import Final

from node.client.config_admin import (
    DELETE,
    SET,
    ConfigChange,
    change_config,
    config_of_all_brokers,
    config_of_broker,
    describe_resources,
)
from node.rest_api.brokers import broker_or_404, living_brokers
from node.rest_api.configs import (
    ALTER,
    CHANGED,
    TAG,
    UPDATE,
    WITH_DOCUMENTATION,
    change_known,
    changes_of,
    config_data,
    config_schema,
    setting_of,
    settings_of,
    text_of,
)
from node.rest_api.resource import Data, collection, collection_schema, resource_name, url
from node.rest_api.route import INT32, STRING, Answer, Response, RestContext, RestRequest, Route
from node.wire.messages.describe_configs import DescribeConfigsResourceResult

KIND: Final = "KafkaBrokerConfig"
CLUSTER_KIND: Final = "KafkaClusterConfig"
PATH: Final = "/v3/clusters/{cluster_id}/brokers/{broker_id}/configs"
ALL_PATH: Final = "/v3/clusters/{cluster_id}/brokers/-/configs"
CLUSTER_PATH: Final = "/v3/clusters/{cluster_id}/broker-configs"
_CONFIG: Final = config_schema("BrokerConfigData", KIND, {"broker_id": INT32})
_CONFIGS: Final = collection_schema("BrokerConfigDataList", "KafkaBrokerConfigList", _CONFIG)
_CLUSTER_CONFIG: Final = config_schema("ClusterConfigData", CLUSTER_KIND, {"config_type": STRING})
_CLUSTER_CONFIGS: Final = collection_schema(
    "ClusterConfigDataList", "KafkaClusterConfigList", _CLUSTER_CONFIG
)


# ---- one broker ----------------------------------------------------------------------------------


def _data(
    context: RestContext, request: RestRequest, broker_id: int, config: DescribeConfigsResourceResult
) -> Data:
    cluster_id = context.cluster_id
    return config_data(
        KIND,
        url(request.base_url, "clusters", cluster_id, "brokers", broker_id, "configs", config.name),
        resource_name(kafka=cluster_id, broker=broker_id, config=config.name),
        {"cluster_id": cluster_id, "broker_id": broker_id},
        config,
        with_documentation=request.query.get("include_documentation", False),
    )


async def list_broker_configs(context: RestContext, request: RestRequest) -> Answer:
    broker_id = (await broker_or_404(context, request)).broker_id
    settings = await settings_of(
        context.client,
        config_of_broker(broker_id),
        with_documentation=request.query.get("include_documentation", False),
    )
    here = url(request.base_url, "clusters", context.cluster_id, "brokers", broker_id, "configs")
    data = [_data(context, request, broker_id, one) for one in settings]
    return Answer(body=collection("KafkaBrokerConfigList", here, data))


async def list_all_broker_configs(context: RestContext, request: RestRequest) -> Answer:
    brokers = await living_brokers(context)
    found = await describe_resources(
        context.client,
        [config_of_broker(broker.broker_id) for broker in brokers],
        with_documentation=request.query.get("include_documentation", False),
    )
    data = [_data(context, request, int(of.name), one) for of, settings in found.items() for one in settings]
    here = url(request.base_url, "clusters", context.cluster_id, "brokers", "-", "configs")
    return Answer(body=collection("KafkaBrokerConfigList", here, data))


async def get_broker_config(context: RestContext, request: RestRequest) -> Answer:
    broker_id = (await broker_or_404(context, request)).broker_id
    config = await setting_of(context.client, config_of_broker(broker_id), request.path["name"])
    return Answer(body=_data(context, request, broker_id, config))


async def _change(
    context: RestContext, request: RestRequest, changes: Sequence[ConfigChange], *, only_check: bool = False
) -> Answer:
    of = config_of_broker((await broker_or_404(context, request)).broker_id)
    await change_known(context.client, of, changes, context.cluster_id, only_check=only_check)
    return Answer(status=204)


async def update_broker_config(context: RestContext, request: RestRequest) -> Answer:
    change = ConfigChange(request.path["name"], SET, text_of(request.body.get("value")))
    return await _change(context, request, [change])


async def reset_broker_config(context: RestContext, request: RestRequest) -> Answer:
    return await _change(context, request, [ConfigChange(request.path["name"], DELETE)])


async def alter_broker_configs(context: RestContext, request: RestRequest) -> Answer:
    only_check = bool(request.body.get("validate_only"))
    return await _change(context, request, changes_of(request.body["data"]), only_check=only_check)


# ---- all brokers ---------------------------------------------------------------------------------


def _cluster_data(context: RestContext, request: RestRequest, config: DescribeConfigsResourceResult) -> Data:
    cluster_id = context.cluster_id
    return config_data(
        CLUSTER_KIND,
        url(request.base_url, "clusters", cluster_id, "broker-configs", config.name),
        resource_name(kafka=cluster_id, broker_config=config.name),
        {"cluster_id": cluster_id, "config_type": "BROKER"},
        config,
        with_documentation=request.query.get("include_documentation", False),
    )


async def list_cluster_configs(context: RestContext, request: RestRequest) -> Answer:
    settings = await settings_of(
        context.client,
        config_of_all_brokers(),
        with_documentation=request.query.get("include_documentation", False),
    )
    here = url(request.base_url, "clusters", context.cluster_id, "broker-configs")
    data = [_cluster_data(context, request, one) for one in settings]
    return Answer(body=collection("KafkaClusterConfigList", here, data))


async def get_cluster_config(context: RestContext, request: RestRequest) -> Answer:
    config = await setting_of(context.client, config_of_all_brokers(), request.path["name"])
    return Answer(body=_cluster_data(context, request, config))


async def update_cluster_config(context: RestContext, request: RestRequest) -> Answer:
    change = ConfigChange(request.path["name"], SET, text_of(request.body.get("value")))
    await change_config(context.client, config_of_all_brokers(), [change])
    return Answer(status=204)


async def reset_cluster_config(context: RestContext, request: RestRequest) -> Answer:
    change = ConfigChange(request.path["name"], DELETE)
    await change_known(context.client, config_of_all_brokers(), [change], context.cluster_id)
    return Answer(status=204)


async def alter_cluster_configs(context: RestContext, request: RestRequest) -> Answer:
    only_check = bool(request.body.get("validate_only"))
    changes = changes_of(request.body["data"])
    await change_config(context.client, config_of_all_brokers(), changes, only_check=only_check)
    return Answer(status=204)


ROUTES: Final = (
    Route(
        method="GET",
        path=PATH,
        handler=list_broker_configs,
        operation_id="listKafkaBrokerConfigs",
        summary="List the settings of a broker.",
        tag=TAG,
        query=(WITH_DOCUMENTATION,),
        responses={200: Response(description="All settings of the broker.", schema=_CONFIGS)},
    ),
    Route(
        method="GET",
        path=PATH + "/{name}",
        handler=get_broker_config,
        operation_id="getKafkaBrokerConfig",
        summary="One setting of a broker.",
        tag=TAG,
        responses={200: Response(description="The setting.", schema=_CONFIG)},
    ),
    Route(
        method="PUT",
        path=PATH + "/{name}",
        handler=update_broker_config,
        operation_id="updateKafkaBrokerConfig",
        summary="Set one setting of a broker while it runs.",
        tag=TAG,
        request_schema=UPDATE,
        body_is_required=True,
        responses=CHANGED,
    ),
    Route(
        method="DELETE",
        path=PATH + "/{name}",
        handler=reset_broker_config,
        operation_id="deleteKafkaBrokerConfig",
        summary="Give one setting of a broker back to what it started with.",
        tag=TAG,
        responses=CHANGED,
    ),
    Route(
        method="POST",
        path=PATH + ":alter",
        handler=alter_broker_configs,
        operation_id="updateKafkaBrokerConfigBatch",
        summary="Change some settings of a broker, all or none.",
        tag=TAG,
        request_schema=ALTER,
        body_is_required=True,
        responses=CHANGED,
    ),
    Route(
        method="GET",
        path=ALL_PATH,
        handler=list_all_broker_configs,
        operation_id="listKafkaAllBrokerConfigs",
        summary="List the settings of each broker.",
        tag=TAG,
        query=(WITH_DOCUMENTATION,),
        responses={200: Response(description="All settings of all brokers.", schema=_CONFIGS)},
    ),
    Route(
        method="GET",
        path=CLUSTER_PATH,
        handler=list_cluster_configs,
        operation_id="listKafkaClusterConfigs",
        summary="List the settings that were set for all brokers while they ran.",
        tag=TAG,
        query=(WITH_DOCUMENTATION,),
        responses={200: Response(description="What was set.", schema=_CLUSTER_CONFIGS)},
    ),
    Route(
        method="GET",
        path=CLUSTER_PATH + "/{name}",
        handler=get_cluster_config,
        operation_id="getKafkaClusterConfig",
        summary="One setting that was set for all brokers.",
        tag=TAG,
        responses={200: Response(description="The setting.", schema=_CLUSTER_CONFIG)},
    ),
    Route(
        method="PUT",
        path=CLUSTER_PATH + "/{name}",
        handler=update_cluster_config,
        operation_id="updateKafkaClusterConfig",
        summary="Set one setting for all brokers while they run.",
        tag=TAG,
        request_schema=UPDATE,
        body_is_required=True,
        responses=CHANGED,
    ),
    Route(
        method="DELETE",
        path=CLUSTER_PATH + "/{name}",
        handler=reset_cluster_config,
        operation_id="deleteKafkaClusterConfig",
        summary="Take back one setting that was set for all brokers.",
        tag=TAG,
        responses=CHANGED,
    ),
    Route(
        method="POST",
        path=CLUSTER_PATH + ":alter",
        handler=alter_cluster_configs,
        operation_id="updateKafkaClusterConfigs",
        summary="Change some settings for all brokers, all or none.",
        tag=TAG,
        request_schema=ALTER,
        body_is_required=True,
        responses=CHANGED,
    ),
)
