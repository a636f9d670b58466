import type { Approval, Decision } from "./wire.js";
/** The base of all errors of this package. */
export declare class HoldpointError extends Error {
    /** The same may do better in a moment. */
    readonly retryable: boolean;
    constructor(message: string, options?: ErrorOptions);
}
/** The server gave no answer. */
export declare class Unreachable extends HoldpointError {
    readonly retryable = true;
}
/** Where in a body something is wrong. */
export interface FieldError {
    path: string;
    message: string;
}
/** An error that the server answered with (RFC 9457). code is stable and meant for programs. */
export declare class Problem extends HoldpointError {
    readonly status: number;
    /** How many seconds the server asks to be left alone; 0 when it does not. */
    readonly retryAfter: number;
    /** Finds the request in the server's log. */
    readonly requestId: string;
    readonly retryable: boolean;
    readonly code: string;
    readonly title: string;
    readonly detail: string;
    readonly errors: FieldError[];
    /** The approval by which people are asked anew for a call that is stale; "" otherwise. */
    readonly successor: string;
    constructor(status: number, document: Record<string, unknown>, 
    /** How many seconds the server asks to be left alone; 0 when it does not. */
    retryAfter?: number, 
    /** Finds the request in the server's log. */
    requestId?: string);
}
/** Reads an answer that is not a 2xx. What is no problem document gets the code "http_" and its status. */
export declare function problemOf(status: number, headers: {
    get(name: string): string | null;
}, body: string, now?: number): Problem;
/** Reads Retry-After, which is seconds or a date. */
export declare function retryAfter(text: string, now?: number): number;
/** The call was refused at once, or people did not approve it. The tool has not run. */
export declare class Refused extends HoldpointError {
    readonly tool: string;
    readonly decision: Decision | undefined;
    constructor(tool: string, decision: Decision | undefined, text?: string);
}
/** People did not approve the call: it was denied, or has expired, or was taken back. */
export declare class NotApproved extends Refused {
    readonly approval: Approval;
    constructor(approval: Approval);
}
/**
 * The wait was ended from this side, by a timeout or a signal. The approval goes on waiting; with a journal,
 * the call is one of Client.unfinished().
 */
export declare class Stopped extends HoldpointError {
    readonly approvalId: string;
    constructor(approvalId: string, options?: ErrorOptions, takenBack?: boolean);
}
/** The call may run under constraints only, and the tool does not take them. It has not run. */
export declare class ConstraintsNotKept extends HoldpointError {
}
/** A reviewer changed the arguments to ones that the tool does not take. It has not run. */
export declare class EditNotUsable extends HoldpointError {
}
/**
 * The call had begun before. Whether it ran, nobody knows; it is not run again. Look at what it would have
 * changed, and say so: Unfinished.settle.
 */
export declare class OutcomeUnknown extends HoldpointError {
    readonly call: string;
    readonly approvalId: string;
    constructor(call: string, approvalId: string);
}
/** The call ran before; outcome is what became of it, "" if that is on record elsewhere. */
export declare class AlreadyDone extends HoldpointError {
    readonly call: string;
    readonly outcome: string;
    constructor(call: string, outcome: string, options?: ErrorOptions);
}
/** The call ran, but that could not be reported. Do not run it again because of that. */
export declare class Unreported extends HoldpointError {
    readonly approvalId: string;
    /** What the tool returned. */
    readonly value: unknown;
    /** What the tool threw, if it did. */
    readonly error: unknown;
    constructor(approvalId: string, 
    /** What the tool returned. */
    value: unknown, 
    /** What the tool threw, if it did. */
    error: unknown, options?: ErrorOptions);
}
/** The journal cannot be written or read, or belongs to another call. The call has not run. */
export declare class JournalError extends HoldpointError {
}
/** The token is not believed. No reason quotes it. */
export declare class InvalidToken extends HoldpointError {
}
/** The webhook is not believed. No reason quotes it. */
export declare class InvalidWebhook extends HoldpointError {
}
/** For tools to throw, when they do not know whether they had their effect: reported as unknown. */
export declare class Uncertain extends Error {
    name: string;
}
