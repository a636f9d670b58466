import type { Client } from "./client.js";
import { type GateOptions } from "./gate.js";
export { NotRun, type GateOptions } from "./gate.js";
export interface LangChainOptions extends GateOptions {
    /** LangGraph's own: with it the graph is interrupted, and nothing waits. */
    interrupt?: (value: Waiting) => unknown;
}
/** The value of an interrupt: what waits. */
export interface Waiting {
    holdpoint: string;
    tool: string;
    review: string;
}
/**
 * Gates a tool, which is changed and returned. Why a call of the model's did not run is its result; a call of a program's throws.
 */
export declare function gated<T extends {
    name: string;
    func: unknown;
    schema?: unknown;
    responseFormat?: unknown;
}>(client: Client, tool: T, { interrupt, ...how }?: LangChainOptions): T;
interface Interrupt {
    id?: string;
    value?: unknown;
}
/**
 * Waits until people have decided on a call that interrupted the graph: what the graph is resumed with, by new Command({ resume }).
 * undefined when the time is over before; with timeoutMs 0 it looks without waiting.
 */
export declare function awaitDecisions(client: Client, interrupts: readonly Interrupt[], { timeoutMs }?: {
    timeoutMs?: number;
}): Promise<Record<string, string> | undefined>;
