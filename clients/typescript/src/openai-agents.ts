// For the OpenAI Agents SDK (@openai/agents). A run is interrupted at a call that people have to decide on; its state can be kept as
// text and resumed by any process. What the SDK itself is told, approved or rejected, permits nothing: execute asks the server.

import type { Client } from "./client.js";
import { decided, denied, Gate, NotRun, parserOf, type GateOptions } from "./gate.js";

export { NotRun, type GateOptions } from "./gate.js";

interface ToolOptions {
  name: string;
  parameters?: unknown;
  execute: (input: any, context?: any, details?: any) => unknown;
  needsApproval?: unknown;
  outputSchema?: unknown;
}

/** Gates a tool: what is given to the SDK's tool() passes through this. Why a call did not run is its result. */
export function gated<T extends ToolOptions>(client: Client, options: T, how: GateOptions = {}): T {
  if (options.needsApproval) throw new TypeError(`${options.name} has a needsApproval of its own`);
  const parse = how.parse ?? parserOf(options.parameters);
  const gate = new Gate(client, options.name, { ...how, ...(parse ? { parse } : {}) }, options.execute);
  return {
    ...options,
    needsApproval: gate.behind(async (_context: unknown, input: object, callId?: string) => !!callId && !!(await gate.pending(input, callId))),
    execute: async (input: object, context?: unknown, details?: { toolCall?: { callId: string }; signal?: AbortSignal }) => {
      try {
        return await gate.run(input, { id: details?.toolCall?.callId, signal: details?.signal, more: [context, details] });
      } catch (error) {
        if (error instanceof NotRun && !options.outputSchema) return error.message;
        throw error;
      }
    },
  };
}

interface Interruption {
  rawItem: { type?: string };
  agent: { tools: readonly { name?: string; needsApproval?: unknown }[] };
}

interface RunState {
  getInterruptions(): Interruption[];
  approve(interruption: any): void;
  reject(interruption: any, options?: { message?: string }): void;
}

/**
 * Waits until people have decided on a call that interrupted the run, and tells the state so: true when the run can go on.
 * With timeoutMs 0 it looks without waiting. It leaves alone what tools that are not gated ask for.
 */
export async function awaitDecisions(state: RunState, { timeoutMs }: { timeoutMs?: number } = {}): Promise<boolean> {
  for (;;) {
    const waiting: { client: Client; id: string }[] = [];
    let any = false;
    for (const interruption of state.getInterruptions()) {
      const call = interruption.rawItem as { type?: string; name?: string; callId?: string; arguments?: string };
      const tool = call.type === "function_call" ? interruption.agent.tools.find(({ name }) => name === call.name) : undefined;
      const gate = Gate.of(tool?.needsApproval);
      if (!gate || !call.callId) continue;
      const approval = await gate.standing(gate.parse(JSON.parse(call.arguments ?? "{}")), call.callId);
      if (approval && !approval.final) {
        waiting.push({ client: gate.client, id: approval.id });
        continue;
      }
      any = true;
      if (approval && approval.status !== "approved") state.reject(interruption, { message: denied(approval) });
      else state.approve(interruption); // execute is told what the server says now
    }
    if (any || !waiting.length || !(await decided(waiting, false, timeoutMs))) return any;
  }
}
