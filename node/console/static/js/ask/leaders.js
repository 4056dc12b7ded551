// Leaders: elections, and the transfer of leadership to one replica. Partitions are {topic, partition}.

import { post } from "../api.js";

export const electPreferred = (partitions) => post("/v1/leaders/elect", { type: "preferred", partitions });
/** Elect replicas that are not in sync: records that only other replicas have are lost. */
export const electUnclean = (partitions) => post("/v1/leaders/elect", { type: "unclean", partitions });
export const transferLeader = (topic, partition, leader) =>
  post("/v1/leaders/transfer", { topic, partition, leader });
export const rebalanceLeaders = () => post("/v1/leaders/rebalance");
