import type { Client } from "./client.js";
import { type GateOptions } from "./gate.js";
export { NotRun, type GateOptions } from "./gate.js";
interface Tool {
    name: string;
    runAsync(request: any): Promise<unknown>;
}
/** Gates a tool, which is changed and returned. Why a call did not run is its result, as error. */
export declare function gated<T extends Tool>(client: Client, tool: T, how?: GateOptions): T;
interface Part {
    functionCall?: {
        id?: string;
        name?: string;
        args?: Record<string, unknown>;
    };
    functionResponse?: {
        id?: string;
    };
}
interface Event {
    content?: {
        parts?: readonly Part[];
    };
}
/**
 * Waits until people have decided on the calls that wait in a session's events: the message with which the session goes on.
 * undefined when none waits, or the time is over before; with timeoutMs 0 it looks without waiting. Confirmations that other
 * tools ask for are left alone.
 */
export declare function awaitDecisions(client: Client, events: readonly Event[], { timeoutMs }?: {
    timeoutMs?: number;
}): Promise<{
    role: string;
    parts: {
        functionResponse: {
            id: string;
            name: string;
            response: {
                confirmed: boolean;
            };
        };
    }[];
} | undefined>;
