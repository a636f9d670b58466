import { Approval, Decision, type Outcome, type Proposal, type Redemption, type Status } from "./wire.js";
export interface Options {
    /** Where the server is; HOLDPOINT_URL of the environment when left out. */
    url?: string;
    /** The API key, "hp_…"; HOLDPOINT_API_KEY of the environment when left out. */
    key?: string;
    /** Sends the requests; the global fetch when left out. */
    fetch?: typeof fetch;
    /** The first of the pauses between tries, in milliseconds. */
    firstPause?: number;
}
export interface WaitOptions {
    /** Ends the wait; the approval goes on waiting. */
    signal?: AbortSignal | undefined;
    timeoutMs?: number | undefined;
    /**
     * Is told once of each question that a reviewer asks meanwhile: approval.question, which inform answers. The wait goes on
     * when it returns, or what it returns resolves; an error of it ends the wait.
     */
    onQuestion?: ((approval: Approval) => void | Promise<void>) | undefined;
    /** Is told once, if people still have to decide, how the approval stands. */
    onWait?: ((approval: Approval) => void) | undefined;
}
/** The requests of one agent. */
export declare class Requests {
    #private;
    constructor(options: Options);
    /** Proposes a call. Run it when accepted; wait when it has an approval; else it is refused. */
    check(tool: string, args: object, proposal?: Proposal, idempotencyKey?: string): Promise<Decision>;
    /** check with the very text that was sent before. */
    checkBody(body: string, headers: Record<string, string>, idempotencyKey: string): Promise<Decision>;
    /** Reads an approval as it is now, with a fresh token if it is approved. */
    get(approvalId: string): Promise<Approval>;
    /** This agent's own approvals, the newest first, without tokens. */
    list(filter?: {
        status?: Status;
        toolName?: string;
        session?: string;
    }): AsyncGenerator<Approval>;
    /**
     * Waits until the approval is over, through outages and restarts of the server. It follows the server's events; where
     * they do not arrive (a proxy that keeps them back), it asks, and each answer is held until something changes. Throws
     * Stopped when the signal or the time ends the wait: the approval goes on waiting, cancel takes it back. Throws Problem
     * when the server says that waiting is of no use.
     */
    wait(approvalId: string, options?: WaitOptions): Promise<Approval>;
    /** Takes back a call that still waits. */
    cancel(approvalId: string): Promise<Approval>;
    /** Says, with a key of kind runtime, what the user said of this very call. */
    answer(approvalId: string, confirmed: boolean, more?: {
        digest?: string;
        comment?: string;
    }): Promise<Approval>;
    /** Answers the question of a reviewer. */
    inform(approvalId: string, information: string): Promise<Approval>;
    /** Names the ticket that covers a call whose nextAction is attach_ticket. */
    attachTicket(approvalId: string, ticket: string, system?: string): Promise<Approval>;
    /**
     * Spends a token. Run the call only when this resolves, and only once. A redemption that is replayed was answered before,
     * under the same key: run the call only if your own records say that it has not begun.
     */
    redeem(token: string, tool: string, args: object, preconditions?: Readonly<Record<string, string>>, idempotencyKey?: string): Promise<Redemption>;
    /** redeem with the very text that was sent before. */
    redeemBody(body: string, idempotencyKey: string): Promise<Redemption>;
    /** Says what became of a call after its token was redeemed. */
    report(approvalId: string, outcome: Outcome, milliseconds?: number, idempotencyKey?: string): Promise<void>;
    /** The keys that verifyToken needs. */
    jwks(): Promise<string>;
}
/** An idempotency key that nobody has used. */
export declare function newKey(): string;
