// Users, ACLs and quotas.

import { get, path, post, put, query, remove } from "../api.js";
import { cluster } from "./cluster.js";

export const users = async (signal) => (await get("/v1/users", signal)).users;
export const setPassword = (name, password, mechanism) =>
  put(path`/v1/users/${name}`, { password, mechanism });
export const deleteUser = (name) => remove(path`/v1/users/${name}`);

/** Each has resource_type, resource_name, pattern_type, principal, host, operation and permission. */
export const acls = async (signal) => (await get(`${await cluster(signal)}/acls`, signal)).data;
export const createAcl = async (acl) => post(`${await cluster()}/acls`, acl);
export const deleteAcl = async (acl) => remove(`${await cluster()}/acls${query(acl)}`);

/** Each has an entity, whose parts are names or null for the default, and values by quota name. */
export const quotas = async (signal) => (await get("/v1/quotas", signal)).quotas;
export const setQuotas = (entity, values) => put("/v1/quotas", { entity, quotas: values });
export const deleteQuotas = (entity) =>
  remove(
    "/v1/quotas?" + new URLSearchParams(Object.entries(entity).map(([kind, name]) => [kind, name ?? ""])),
  );
