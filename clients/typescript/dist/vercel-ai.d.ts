import type { Client } from "./client.js";
import { type GateOptions } from "./gate.js";
export { NotRun, type GateOptions } from "./gate.js";
interface Message {
    role: string;
    content: unknown;
}
/** Gates tools, each under its name in the set. A call that did not run is an error with the text of NotRun. */
export declare function gated<T extends Record<string, object>>(client: Client, tools: T, how?: GateOptions): T;
type Tools = Readonly<Record<string, {
    needsApproval?: unknown;
}>>;
export interface ApprovalResponse {
    type: "tool-approval-response";
    approvalId: string;
    approved: boolean;
    reason?: string;
}
/**
 * Waits until people have decided on every call of these tools that the messages ask approval for. The answers are the content of the
 * next message, of the role tool; undefined when the time is over before. With timeoutMs 0 it looks without waiting.
 */
export declare function awaitDecisions(tools: Tools, messages: readonly Message[]): Promise<ApprovalResponse[]>;
export declare function awaitDecisions(tools: Tools, messages: readonly Message[], options: {
    timeoutMs?: number;
}): Promise<ApprovalResponse[] | undefined>;
