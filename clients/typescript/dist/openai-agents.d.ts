import type { Client } from "./client.js";
import { type GateOptions } from "./gate.js";
export { NotRun, type GateOptions } from "./gate.js";
interface ToolOptions {
    name: string;
    parameters?: unknown;
    execute: (input: any, context?: any, details?: any) => unknown;
    needsApproval?: unknown;
    outputSchema?: unknown;
}
/** Gates a tool: what is given to the SDK's tool() passes through this. Why a call did not run is its result. */
export declare function gated<T extends ToolOptions>(client: Client, options: T, how?: GateOptions): T;
interface Interruption {
    rawItem: {
        type?: string;
    };
    agent: {
        tools: readonly {
            name?: string;
            needsApproval?: unknown;
        }[];
    };
}
interface RunState {
    getInterruptions(): Interruption[];
    approve(interruption: any): void;
    reject(interruption: any, options?: {
        message?: string;
    }): void;
}
/**
 * Waits until people have decided on a call that interrupted the run, and tells the state so: true when the run can go on.
 * With timeoutMs 0 it looks without waiting. It leaves alone what tools that are not gated ask for.
 */
export declare function awaitDecisions(state: RunState, { timeoutMs }?: {
    timeoutMs?: number;
}): Promise<boolean>;
