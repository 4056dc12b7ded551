// The doctor's findings.

import { get, query } from "../api.js";

const LIMIT_MS = 15_000; // every address of every node is tried

/** {is_healthy, checked_at, findings: [{severity, subject, message}]}. */
export const doctor = (signal) => get("/v1/doctor" + query({ timeout_ms: LIMIT_MS }), signal);
