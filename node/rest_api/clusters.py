"""Clusters: exactly one, to which every node belongs, with links to all of its resources."""

from typing import Final

from ottla.node.client.cluster_admin import describe_cluster
from ottla.node.rest_api.resource import (
    RELATED,
    Data,
    collection,
    collection_schema,
    related,
    resource,
    resource_name,
    resource_schema,
    url,
)
from ottla.node.rest_api.route import STRING, Answer, Response, RestContext, RestRequest, Route

TAG: Final = "Cluster (v3)"
_CLUSTER: Final = resource_schema(
    "ClusterData",
    "KafkaCluster",
    {
        "cluster_id": STRING,
        "controller": RELATED,
        "acls": RELATED,
        "brokers": RELATED,
        "broker_configs": RELATED,
        "consumer_groups": RELATED,
        "topics": RELATED,
        "partition_reassignments": RELATED,
    },
    optional=["controller"],
)
_CLUSTERS: Final = collection_schema("ClusterDataList", "KafkaClusterList", _CLUSTER)


async def _cluster(context: RestContext, request: RestRequest) -> Data:
    described = await describe_cluster(context.client)
    base, cluster_id = request.base_url, context.cluster_id
    here = url(base, "clusters", cluster_id)
    data = resource("KafkaCluster", here, resource_name(kafka=cluster_id), cluster_id=cluster_id)
    if described.controller_id >= 0:
        data["controller"] = related(f"{here}/brokers/{described.controller_id}")
    data |= {
        "acls": related(f"{here}/acls"),
        "brokers": related(f"{here}/brokers"),
        "broker_configs": related(f"{here}/broker-configs"),
        "consumer_groups": related(f"{here}/consumer-groups"),
        "topics": related(f"{here}/topics"),
        "partition_reassignments": related(f"{here}/topics/-/partitions/-/reassignment"),
    }
    return data


async def list_clusters(context: RestContext, request: RestRequest) -> Answer:
    here = url(request.base_url, "clusters")
    return Answer(body=collection("KafkaClusterList", here, [await _cluster(context, request)]))


async def get_cluster(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=await _cluster(context, request))


ROUTES: Final = (
    Route(
        method="GET",
        path="/v3/clusters",
        handler=list_clusters,
        operation_id="listKafkaClusters",
        summary="List clusters: the one that this node belongs to.",
        tag=TAG,
        responses={200: Response(description="The cluster.", schema=_CLUSTERS)},
    ),
    Route(
        method="GET",
        path="/v3/clusters/{cluster_id}",
        handler=get_cluster,
        operation_id="getKafkaCluster",
        summary="The cluster, with links to its resources.",
        tag=TAG,
        responses={200: Response(description="The cluster.", schema=_CLUSTER)},
    ),
)
