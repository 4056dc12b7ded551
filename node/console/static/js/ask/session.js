// Login to the console and logout.

import { get, post } from "../api.js";
import { ended, setSession } from "../session.js";

export const askSession = async (signal) => setSession(await get("/console/session", signal));
export const logIn = async (user, password) => setSession(await post("/console/login", { user, password }));
export const logInByToken = async (token) => setSession(await post("/console/login", { token }));
export async function logOut() {
  await post("/console/logout");
  ended();
}
