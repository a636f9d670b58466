// For the Vercel AI SDK (ai, from version 6). A call that people have to decide on is a request for approval in the messages, and
// generateText or streamText ends there. The messages can be kept, and any process goes on with them. What they say permits
// nothing: execute asks the server.

import type { Client } from "./client.js";
import { decided, denied, Gate, parserOf, type GateOptions } from "./gate.js";

export { NotRun, type GateOptions } from "./gate.js";

interface Execution {
  toolCallId: string;
  messages: readonly Message[];
  abortSignal?: AbortSignal;
}

interface Message {
  role: string;
  content: unknown;
}

interface Part {
  type: string;
  approvalId: string;
  toolCallId: string;
  toolName: string;
  input: object;
}

const partsOf = (messages: readonly Message[]) => messages.flatMap(({ content }) => (Array.isArray(content) ? (content as Part[]) : []));

/** Gates tools, each under its name in the set. A call that did not run is an error with the text of NotRun. */
export function gated<T extends Record<string, object>>(client: Client, tools: T, how: GateOptions = {}): T {
  return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, gatedTool(client, name, tool, how)])) as T;
}

function gatedTool(client: Client, name: string, tool: object, how: GateOptions): object {
  const { execute, inputSchema, needsApproval } = tool as { execute?: (...args: never[]) => unknown; inputSchema?: unknown; needsApproval?: unknown };
  if (!execute) throw new TypeError(`${name} has no execute: it runs elsewhere`);
  if (needsApproval) throw new TypeError(`${name} has a needsApproval of its own`);
  const parse = how.parse ?? parserOf(inputSchema);
  const gate = new Gate(client, name, { ...how, ...(parse ? { parse } : {}) }, async (...args) => last(await execute(...args)));
  return {
    ...tool,
    // A call that has been asked for stays so: the SDK looks again before it takes the answer.
    needsApproval: gate.behind(async (input: object, { toolCallId, messages }: Execution) =>
      partsOf(messages).some((part) => part.type === "tool-approval-request" && part.toolCallId === toolCallId) || !!(await gate.pending(input, toolCallId))),
    execute: (input: object, call: Execution) => gate.run(input, { id: call.toolCallId, signal: call.abortSignal, more: [call] }),
  };
}

/** A tool that yields has run when it has yielded its last, which is its result. */
async function last(value: unknown): Promise<unknown> {
  if (typeof value !== "object" || value === null || !(Symbol.asyncIterator in value)) return value;
  let result: unknown;
  for await (result of value as AsyncIterable<unknown>);
  return result;
}

type Tools = Readonly<Record<string, { needsApproval?: unknown }>>;

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
export async function awaitDecisions(tools: Tools, messages: readonly Message[]): Promise<ApprovalResponse[]>;
export async function awaitDecisions(tools: Tools, messages: readonly Message[], options: { timeoutMs?: number }): Promise<ApprovalResponse[] | undefined>;
export async function awaitDecisions(tools: Tools, messages: readonly Message[], { timeoutMs }: { timeoutMs?: number } = {}): Promise<ApprovalResponse[] | undefined> {
  const parts = partsOf(messages);
  const answered = new Set(parts.filter((part) => part.type === "tool-approval-response").map((part) => part.approvalId));
  for (;;) {
    const responses: ApprovalResponse[] = [], waiting: { client: Client; id: string }[] = [];
    for (const { approvalId, toolCallId } of parts.filter((part) => part.type === "tool-approval-request" && !answered.has(part.approvalId))) {
      const call = parts.find((part) => part.type === "tool-call" && part.toolCallId === toolCallId);
      const gate = call && Gate.of(tools[call.toolName]?.needsApproval);
      if (!gate) continue;
      const approval = await gate.standing(call.input, toolCallId);
      if (approval && !approval.final) waiting.push({ client: gate.client, id: approval.id });
      const approved = !approval || approval.status === "approved"; // execute is told what the server says now
      responses.push({ type: "tool-approval-response", approvalId, approved, ...(approved ? {} : { reason: denied(approval) }) });
    }
    if (!waiting.length) return responses;
    if (!(await decided(waiting, true, timeoutMs))) return undefined;
  }
}
