/**
 * The client of Holdpoint, the approval engine for AI agents' tool calls. It proposes calls, waits for people, spends the
 * token that their approval yields, runs the call as it was approved, and reports what became of it. It depends on nothing
 * but Node, runs nothing that is not permitted, and never puts a key, a token or an argument into an error.
 *
 * In doubt, nothing is run: an error means that the call was not permitted, whatever the error is, except for Unreported and
 * OutcomeUnknown.
 */
export { canonical, digest } from "./canon.js";
export { Client, Unfinished, type CallOptions, type ClientOptions, type Context, type Guarded, type GuardOptions, type Tool } from "./client.js";
export * from "./errors.js";
export { type Options, type WaitOptions } from "./requests.js";
export { verifyToken, type Claims, type Expect } from "./token.js";
export { verifyWebhook, type Webhook, type WebhookHeaders } from "./webhook.js";
export { Approval, Decision, type Denial, type Json, type Outcome, type Proposal, type Redemption, type Status } from "./wire.js";
