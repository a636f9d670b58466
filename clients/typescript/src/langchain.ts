// For LangChain.js and LangGraph.js (@langchain/core, @langchain/langgraph). A gated tool waits for people, or, given LangGraph's
// interrupt, interrupts the graph, whose checkpoint any process resumes. What it is resumed with permits nothing: the tool asks the
// server.

import type { Client } from "./client.js";
import { decided, Gate, NotRun, parserOf, type GateOptions } from "./gate.js";

export { NotRun, type GateOptions } from "./gate.js";

export interface LangChainOptions extends GateOptions {
  /** LangGraph's own: with it the graph is interrupted, and nothing waits. */
  interrupt?: (value: Waiting) => unknown;
}

/** The value of an interrupt: what waits. */
export interface Waiting {
  holdpoint: string; // the approval's id
  tool: string;
  review: string; // the page on which a person decides
}

interface Config {
  toolCall?: { id?: string };
  configurable?: { thread_id?: unknown };
  signal?: AbortSignal;
}

/**
 * Gates a tool, which is changed and returned. Why a call of the model's did not run is its result; a call of a program's throws.
 */
export function gated<T extends { name: string; func: unknown; schema?: unknown; responseFormat?: unknown }>(client: Client, tool: T, { interrupt, ...how }: LangChainOptions = {}): T {
  const { func } = tool as { func: (input: unknown, manager: unknown, config?: Config) => unknown };
  if (Gate.of(func)) throw new TypeError(`${tool.name} is gated already`);
  const parser = parserOf(tool.schema);
  const parse = how.parse ?? (parser && ((args: unknown) => objectOf(parser(args))));
  const gate = new Gate(client, tool.name, { ...how, ...(parse ? { parse } : {}) }, async (args: { input: string }, text: boolean, ...more: [unknown, Config?]) =>
    returned(await func.call(tool, text ? args.input : args, ...more)));
  tool.func = gate.behind(async (input: object | string, manager: unknown, config?: Config) => {
    const args = objectOf(input), text = args !== input;
    const call = { id: config?.toolCall?.id, scope: String(config?.configurable?.thread_id ?? ""), signal: config?.signal, more: [text, manager, config] };
    try {
      for (let approval; interrupt && call.id && (approval = await gate.pending(args, call.id, call.scope)); ) {
        interrupt({ holdpoint: approval.id, tool: tool.name, review: approval.review }); // throws, until the graph is resumed
      }
      return await gate.run(args, call);
    } catch (error) {
      if (error instanceof NotRun && call.id) return tool.responseFormat === "content_and_artifact" ? [error.message, undefined] : error.message;
      throw error;
    }
  });
  return tool;
}

/** The only argument of a tool that takes a text has a name as well. */
function objectOf(input: object | string): object {
  return typeof input === "string" ? { input } : input;
}

/** A tool that yields has run when it is through; what it returns then is its result. */
async function returned(value: unknown): Promise<unknown> {
  if (typeof value !== "object" || value === null || !(Symbol.asyncIterator in value)) return value;
  const steps = (value as AsyncIterable<unknown>)[Symbol.asyncIterator]();
  for (;;) {
    const step = await steps.next();
    if (step.done) return step.value as unknown;
  }
}

interface Interrupt {
  id?: string;
  value?: unknown;
}

/**
 * Waits until people have decided on a call that interrupted the graph: what the graph is resumed with, by new Command({ resume }).
 * undefined when the time is over before; with timeoutMs 0 it looks without waiting.
 */
export async function awaitDecisions(client: Client, interrupts: readonly Interrupt[], { timeoutMs }: { timeoutMs?: number } = {}): Promise<Record<string, string> | undefined> {
  const waiting = interrupts.flatMap(({ id, value }) => {
    const approval = (value as Partial<Waiting> | undefined)?.holdpoint;
    return id && typeof approval === "string" ? [{ client, interrupt: id, id: approval }] : [];
  });
  while (waiting.length) {
    const now = await Promise.all(waiting.map(async ({ interrupt, id }) => [interrupt, await client.get(id)] as const));
    const over = now.filter(([, approval]) => approval.final);
    if (over.length) return Object.fromEntries(over.map(([interrupt, approval]) => [interrupt, approval.status]));
    if (!(await decided(waiting, false, timeoutMs))) break;
  }
  return undefined;
}
