import { type Json } from "./wire.js";
/** What the journal says of one call. */
export interface Entry {
    call: string;
    step: "" | "proposed" | "waiting" | "redeeming" | "begun" | "ran" | "over";
    tool: string;
    /** The idempotency key of the proposal, and the proposal as it was sent. */
    key: string;
    body: string;
    headers: Record<string, string>;
    approval: string;
    redeemKey: string;
    redeemBody: string;
    /** Of all redemptions, by whomever. */
    redeemKeys: string[];
    /** What was sent under each. */
    redeemBodies: string[];
    /** The call's name is the caller's own key. */
    named: boolean;
    /** Whose "begun" counts. */
    by: string;
    /** What became of the call, once it ran. */
    outcome: string;
    milliseconds: number;
    /** Why it is over: reported, refused, … */
    why: string;
}
export declare function newEntry(call: string, approval?: string): Entry;
/**
 * Whether a call that says the same (identity), without a key of the caller's own, is this one. What was accepted at once, and
 * only reads, may be done anew, whatever became of it.
 */
export declare function goesOnAs(e: Entry, sought: string): boolean;
/** A journal in a file, which is made with mode 0600: it holds arguments and tokens. */
export declare class Journal {
    #private;
    readonly path: string;
    constructor(path: string);
    close(): void;
    /** What is known of a call. */
    entry(call: string): Entry | undefined;
    /** All calls, the oldest first. */
    all(): Entry[];
    /** The calls that are not over. */
    unfinished(): Entry[];
    /** Appends a line. When this returns, it is on the disk. */
    write(call: string, step: string, more: Json): void;
    /** Claims the one right to run a call, and returns the claim's name. "": somebody else has begun it, or it is over. */
    begin(call: string): string;
}
