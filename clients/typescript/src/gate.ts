// What the adapters for agent frameworks share: a tool whose calls are left waiting in the framework, where the wait costs
// nothing, and run by Client.guard. A call is proposed under a key that is made of it, and the server answers one key with one
// approval. So any process can ask how a call stands and go on with it, and nothing is kept here.

import { AsyncLocalStorage } from "node:async_hooks";
import { createHash } from "node:crypto";
import { canonical } from "./canon.js";
import type { Client, Guarded, GuardOptions } from "./client.js";
import { AlreadyDone, HoldpointError, NotApproved, OutcomeUnknown, Refused, Stopped, Unreported } from "./errors.js";
import { encode, type Approval, type Proposal } from "./wire.js";

/** How a framework's tool is gated: how its calls are proposed, and more. One that is permitted under constraints does not run. */
export interface GateOptions extends Omit<GuardOptions<object>, "tool" | "constraints"> {
  /**
   * Names a call, for ever, by the id that the model gave it; needed for a model whose ids are not unique. When left out, it is
   * made of tool, id and arguments.
   */
  key?: (callId: string, args: object) => string;
}

/** Why a call did not run, as the model is told in place of a result. cause is the error. */
export class NotRun extends HoldpointError {
  constructor(tool: string, error: HoldpointError) {
    let text = error instanceof Refused ? error.message : `${tool} did not run: ${error.message}`;
    if (error instanceof AlreadyDone || error instanceof OutcomeUnknown) {
      const known = error instanceof AlreadyDone && ["succeeded", "failed"].includes(error.outcome);
      text = `${tool} is not run again: ${known ? `it has run, and ${error.outcome}` : "it may have run, and nobody knows what became of it"}`;
    }
    super(text, { cause: error });
  }
}

interface Within {
  more: unknown[]; // what the framework gives a tool beside its arguments
  began: boolean;
}

const gates = new WeakMap<object, Gate>();

/** A tool of a framework, before which a client stands. */
export class Gate {
  readonly #options: GateOptions;
  readonly #guarded: Guarded<object, unknown>;
  readonly #within = new AsyncLocalStorage<Within>();

  constructor(
    readonly client: Client,
    readonly tool: string,
    options: GateOptions,
    run: (args: never, ...more: never[]) => unknown,
  ) {
    this.#options = options;
    const { key: _, ...guard } = options;
    this.#guarded = client.guard({ ...guard, tool }, async (args) => {
      const within = this.#within.getStore();
      if (within) within.began = true;
      return run(args as never, ...((within?.more ?? []) as never[]));
    });
  }

  /** The gate of a tool with this function, which its framework keeps as it is; undefined for a tool that is not gated. */
  static of(part: unknown): Gate | undefined {
    return typeof part === "function" ? gates.get(part) : undefined;
  }

  /** Makes the tool with this function, such as its needsApproval, known as gated. */
  behind<F extends (...args: never[]) => Promise<unknown>>(part: F): F {
    gates.set(part, this);
    return part;
  }

  /** The arguments as the tool takes them. Throws for others. */
  parse(args: unknown): object {
    return this.#options.parse ? this.#options.parse(args) : (args as object);
  }

  /** Proposes a call, or asks how it stands; undefined when nothing is to be decided by people. */
  async standing(args: object, callId: string, scope = ""): Promise<Approval | undefined> {
    const proposal: Proposal = { ...this.#options, wantToken: true };
    const { approval } = await this.client.check(this.tool, args, proposal, this.#key(args, callId, scope));
    return approval?.id ? this.client.get(approval.id) : undefined; // what was answered first may be long ago
  }

  /** The approval that people have yet to decide on. Without an answer there is nothing to wait for: run says why. */
  async pending(args: object, callId: string, scope?: string): Promise<Approval | undefined> {
    try {
      const approval = await this.standing(args, callId, scope);
      if (!approval || approval.final) return undefined;
      this.client.tellWait(approval);
      await this.client.tellQuestion(approval);
      return approval;
    } catch (error) {
      if (error instanceof HoldpointError) return undefined;
      throw error;
    }
  }

  /** Runs a call once it is permitted. Throws NotRun, or what the tool threw. */
  async run(args: object, call: { id: string | undefined; scope?: string; signal?: AbortSignal | undefined; more: unknown[] }): Promise<unknown> {
    const within = { more: call.more, began: false };
    const key = call.id ? { key: this.#key(args, call.id, call.scope ?? "") } : {};
    try {
      return await this.#within.run(within, () => this.#guarded(args, { ...key, ...(call.signal ? { signal: call.signal } : {}) }));
    } catch (error) {
      if (error instanceof Unreported) { // that it ran is what counts here
        if (error.error !== undefined) throw error.error;
        return error.value;
      }
      throw error instanceof HoldpointError && !within.began ? new NotRun(this.tool, error) : error;
    }
  }

  #key(args: object, callId: string, scope: string): string {
    if (this.#options.key) return this.#options.key(callId, args);
    return createHash("sha256").update(JSON.stringify([this.tool, scope, callId, canonical(JSON.parse(encode(args)))])).digest("hex");
  }
}

/** What the model is told of a call that people did not approve. */
export function denied(approval: Approval): string {
  return new NotRun(approval.toolName, new NotApproved(approval)).message;
}

/** Waits until the first of these approvals is over, or each; false when the time is over before. */
export async function decided(waiting: readonly { client: Client; id: string }[], each: boolean, timeoutMs?: number): Promise<boolean> {
  const end = new AbortController();
  const waits = waiting.map(({ client, id }) => client.wait(id, { signal: end.signal, timeoutMs, onQuestion: (asked) => client.tellQuestion(asked) }));
  try {
    await (each ? Promise.all(waits) : Promise.race(waits));
    return true;
  } catch (error) {
    if (error instanceof Stopped) return false;
    throw error;
  } finally {
    end.abort();
    await Promise.allSettled(waits);
  }
}

/** What a tool's own schema makes of arguments: one of Zod, or another with the Standard Schema interface. */
export function parserOf(schema: unknown): ((args: unknown) => object) | undefined {
  const { parse, "~standard": standard } = (schema ?? {}) as { parse?: (args: unknown) => object; "~standard"?: { validate(args: unknown): unknown } };
  if (typeof parse === "function") return (args) => parse.call(schema, args);
  if (!standard) return undefined;
  return (args) => {
    const result = standard.validate(args) as { issues?: { message: string }[]; value: object };
    if (result.issues || !("value" in result)) throw new TypeError(result.issues?.map((issue) => issue.message).join("; ") ?? "the schema has no answer at once");
    return result.value;
  };
}
