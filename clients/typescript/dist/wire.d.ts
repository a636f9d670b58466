/** Any JSON object. */
export type Json = Record<string, unknown>;
/** How a tool's calls are proposed, in the words of the Agent Action Contract v1. */
export interface Proposal {
    category?: "public_read" | "private_read" | "write" | "unknown";
    authorizationState?: "none" | "user_claimed" | "authenticated" | "validated" | "confirmed";
    /** devops, finance, hr, legal, security, research, …, unknown. */
    riskDomain?: string;
    /** What the caller itself would do. The stricter of both counts. */
    route?: "accept" | "ask" | "defer" | "refuse";
    /** Texts, or objects with source_id. */
    evidence?: readonly unknown[];
    /** What the user wants, in words. */
    intent?: string;
    /** Whoever that is does not decide on it. */
    onBehalfOf?: string;
    requestId?: string;
    /** An approval of its own, where the very call waits already. */
    separate?: boolean;
    /** A token for an accepted call as well. */
    wantToken?: boolean;
    session?: string;
    /** What must be unchanged when the call runs. */
    preconditions?: Readonly<Record<string, string>>;
}
/** The body of a check. Throws TypeError for arguments that are not JSON. */
export declare function checkBody(tool: string, args: object, p: Proposal): string;
/** The headers of a check. */
export declare function checkHeaders(p: Proposal): Record<string, string>;
export declare const PRECONDITIONS = "Holdpoint-Preconditions";
/**
 * What makes two proposals one call: tool, arguments, on whose behalf, session, preconditions, and what decides how strictly
 * it is judged. A call that asks for more people than the unfinished one did is another call. "" for a call that is to be apart
 * from its equals (separate).
 */
export declare function identity(body: string, headers: Record<string, string>): string;
/**
 * Whether a call's name is a key of the caller's own, in a journal of a version that did not write so: calls under such a key
 * ask for a token, and its form is none of ours, in whichever language.
 */
export declare function isOwnKey(call: string, body: string): boolean;
export declare function isRead(body: string): boolean;
/** The body of a redemption. */
export declare function redeemBody(token: string, tool: string, args: object, preconditions?: Readonly<Record<string, string>>): string;
/** JSON, which has no NaN: JSON.stringify would say null instead. */
export declare function encode(value: unknown): string;
export declare function isObject(value: unknown): value is Json;
export type Status = "pending" | "approved" | "denied" | "expired" | "cancelled";
/** What kind of no it was. */
export interface Denial {
    kind: string;
    retryable?: boolean;
    retry_after?: number;
    comment?: string;
}
/** A call that waits, or has waited, for people. */
export declare class Approval {
    #private;
    readonly id: string;
    readonly status: string;
    readonly toolName: string;
    readonly expiresAt: string;
    readonly digest: string;
    readonly nextAction: string;
    readonly execution: string;
    readonly reasons: {
        code: string;
        message: string;
    }[];
    readonly denial: Denial | undefined;
    /** What a reviewer wants to know: Client.inform. */
    readonly question: string;
    readonly successor: string;
    /** The page on which a person decides. */
    readonly review: string;
    /** Set when a reviewer has changed the arguments: these are what is approved, and what runs. */
    readonly edited: Json | undefined;
    constructor(raw: Json);
    /** Permits the call to run once; "" unless approved. No member, so that printing an approval does not show it. */
    get token(): string;
    /** All that the server said. */
    get raw(): Json;
    /** Whether nothing can change the status any more. A status that is not known is not final. */
    get final(): boolean;
}
/** The answer to a proposed call. */
export declare class Decision {
    #private;
    readonly hardBlockers: string[];
    readonly reasons: string[];
    /** What is wrong with the proposal itself, such as "$.tool_category: The field is required."; [] for nothing. */
    readonly invalid: string[];
    /** What an accepted call has to keep to; {} for nothing. */
    readonly constraints: Json;
    readonly approval: Approval | undefined;
    /** The very call waited already: approval is that one. */
    readonly joined: boolean;
    /** Whether the call may run at once. */
    readonly accepted: boolean;
    /** All that the server said. */
    get raw(): Json;
    constructor(raw: Json);
}
/** A spent token: the call may run now, once, within constraints. */
export interface Redemption {
    approvalId: string;
    constraints: Json;
    /** By when to report what became of the call. */
    leaseUntil: string;
    /** The server had answered this request before. */
    replayed: boolean;
}
/** Reads the answer to a redemption; undefined unless it says that the token is redeemed. */
export declare function redemptionOf(raw: unknown): Redemption | undefined;
export type Outcome = "succeeded" | "failed" | "unknown";
