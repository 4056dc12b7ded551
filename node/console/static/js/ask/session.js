// Login to the console and logout.

import { get, post } from "../api.js";
import { ended, learn } from "../session.js";

export const askWho = async (signal) => learn(await get("/console/session", signal));
export const logIn = async (user, password) => learn(await post("/console/login", { user, password }));
export const logInByToken = async (token) => learn(await post("/console/login", { token }));
export async function logOut() {
  await post("/console/logout");
  ended();
}
