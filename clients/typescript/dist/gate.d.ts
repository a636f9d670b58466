import type { Client, GuardOptions } from "./client.js";
import { HoldpointError } from "./errors.js";
import { type Approval } from "./wire.js";
/** How a framework's tool is gated: how its calls are proposed, and more. One that is permitted under constraints does not run. */
export interface GateOptions extends Omit<GuardOptions<object>, "tool" | "constraints"> {
    /**
     * Names a call, for ever, by the id that the model gave it; needed for a model whose ids are not unique. When left out, it is
     * made of tool, id and arguments.
     */
    key?: (callId: string, args: object) => string;
}
/** Why a call did not run, as the model is told in place of a result. cause is the error. */
export declare class NotRun extends HoldpointError {
    constructor(tool: string, error: HoldpointError);
}
/** A tool of a framework, before which a client stands. */
export declare class Gate {
    #private;
    readonly client: Client;
    readonly tool: string;
    constructor(client: Client, tool: string, options: GateOptions, run: (args: never, ...more: never[]) => unknown);
    /** The gate of a tool with this function, which its framework keeps as it is; undefined for a tool that is not gated. */
    static of(part: unknown): Gate | undefined;
    /** Makes the tool with this function, such as its needsApproval, known as gated. */
    behind<F extends (...args: never[]) => Promise<unknown>>(part: F): F;
    /** The arguments as the tool takes them. Throws for others. */
    parse(args: unknown): object;
    /** Proposes a call, or asks how it stands; undefined when nothing is to be decided by people. */
    standing(args: object, callId: string, scope?: string): Promise<Approval | undefined>;
    /** The approval that people have yet to decide on. Without an answer there is nothing to wait for: run says why. */
    pending(args: object, callId: string, scope?: string): Promise<Approval | undefined>;
    /** Runs a call once it is permitted. Throws NotRun, or what the tool threw. */
    run(args: object, call: {
        id: string | undefined;
        scope?: string;
        signal?: AbortSignal | undefined;
        more: unknown[];
    }): Promise<unknown>;
}
/** What the model is told of a call that people did not approve. */
export declare function denied(approval: Approval): string;
/** Waits until the first of these approvals is over, or each; false when the time is over before. */
export declare function decided(waiting: readonly {
    client: Client;
    id: string;
}[], each: boolean, timeoutMs?: number): Promise<boolean>;
/** What a tool's own schema makes of arguments: one of Zod, or another with the Standard Schema interface. */
export declare function parserOf(schema: unknown): ((args: unknown) => object) | undefined;
