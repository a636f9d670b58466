import { Problem } from "./errors.js";
import { type Entry } from "./journal.js";
import { Requests, type Options } from "./requests.js";
import { type Approval, type Json, type Outcome, type Proposal } from "./wire.js";
export interface ClientOptions extends Options {
    /**
     * A file (made if it is not there) by which calls survive a crash of this process: they are Client.unfinished()
     * afterwards, and none of them runs twice. The same call, made again, goes on as the unfinished one before anything new is
     * proposed. It belongs to one agent.
     */
    journal?: string;
    /**
     * Is told of each call of a guarded tool that begins to wait. When left out, a line on standard error says for whom, and
     * where they decide; null says nothing.
     */
    onWait?: ((approval: Approval) => void) | null;
    /**
     * Is told once of each question that a reviewer asks about a call of a guarded tool while it waits: approval.question, which
     * inform answers. The wait goes on when it returns, or what it returns resolves. When left out, a line on standard error
     * says what is asked; null says nothing.
     */
    onQuestion?: ((approval: Approval) => void | Promise<void>) | null;
}
export interface GuardOptions<A extends object> extends Proposal {
    /** The tool's name. */
    tool: string;
    /** The tool keeps to constraints, which it finds in its context. One that does not is not run under constraints. */
    constraints?: boolean;
    /** Checks arguments that a reviewer has changed: returns them as the tool takes them, or throws. */
    parse?: (args: unknown) => A;
    /** How long people are waited for; for ever when left out. */
    timeoutMs?: number;
    /** A wait that ends from this side takes the call back; else the approval goes on waiting. */
    cancelWhenStopped?: boolean;
}
/** What a tool is told beside its arguments. */
export interface Context {
    /** What the call must keep to; {} for nothing. */
    constraints: Json;
    /** "" for a call that was accepted at once. */
    approvalId: string;
}
/** More about one call. */
export interface CallOptions extends Proposal {
    /** Your own name for it, such as "invoice:42": whatever is called twice under one key runs once. */
    key?: string;
    /** Ends the wait for people. */
    signal?: AbortSignal;
}
export type Tool<A extends object, R> = (args: A, context: Context) => R | Promise<R>;
export type Guarded<A extends object, R> = (args: A, call?: CallOptions) => Promise<R>;
/** One agent at one server. */
export declare class Client extends Requests {
    #private;
    constructor(options?: ClientOptions);
    /**
     * Wraps a tool so that it runs only when it is permitted. A call of it is proposed with its arguments, waits for people
     * as long as it takes, and then runs with the arguments that they approved, also where they edited them. It rejects with
     * Refused or NotApproved, Stopped, or what else keeps it from running. The server is told what became of it: succeeded;
     * failed for an error; unknown for Uncertain, and for an AbortError or TimeoutError.
     */
    guard<A extends object, R>(options: GuardOptions<A>, run: Tool<A, R>): Guarded<A, R>;
    /** The calls of the journal that are not over and that this process is not busy with. */
    unfinished(): Unfinished[];
}
/**
 * A call that a former process left behind, or whose wait was stopped. state: proposed, waiting or redeeming, which resume
 * runs; begun, where it is unknown whether it ran; ran, where only the report is missing, which resume makes up for.
 */
export declare class Unfinished {
    #private;
    readonly call: string;
    readonly state: string;
    readonly tool: string;
    readonly args: Json;
    readonly approvalId: string;
    constructor(client: Client, entry: Entry);
    /** Goes on: waits, and runs the tool of this name, which is guarded again by now. Rejects as a guarded call does. */
    resume(options?: {
        signal?: AbortSignal;
    }): Promise<unknown>;
    /** Says what became of a call that had begun. */
    settle(outcome: Outcome): Promise<void>;
    /**
     * Does not go on with a call that has not begun: what waits is taken back. What has begun meanwhile, in another process for
     * example, is not dropped: that rejects.
     */
    drop(): Promise<void>;
}
/** Tells whoever looks at the program that a call waits, for whom, and where that is decided: on standard error. */
export declare function sayWhatWaits(approval: Approval): void;
/** Tells whoever looks at the program what a reviewer wants to know, and who answers: on standard error. */
export declare function sayWhatIsAsked(approval: Approval): void;
/**
 * What an error of a redemption means for a call that has not begun. again: the same request may be answered otherwise later.
 * fresh: not spent, and the token is not good any more. done: it ran, or was spent by somebody else. refused: this call does
 * not run.
 */
export declare function verdictOf(problem: Problem): "again" | "fresh" | "done" | "refused";
