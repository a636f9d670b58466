/**
 * The client of Holdpoint, the approval engine for AI agents' tool calls. It proposes calls, waits for people, spends the
 * token that their approval yields, runs the call as it was approved, and reports what became of it. It depends on nothing
 * but Node, runs nothing that is not permitted, and never puts a key, a token or an argument into an error.
 *
 * In doubt, nothing is run: an error means that the call was not permitted, whatever the error is, except for Unreported and
 * OutcomeUnknown.
 */
export { canonical, digest } from "./canon.js";
export { Client, Unfinished } from "./client.js";
export * from "./errors.js";
export { verifyToken } from "./token.js";
export { verifyWebhook } from "./webhook.js";
export { Approval, Decision } from "./wire.js";
