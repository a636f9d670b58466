/** What a token says. Times are whole seconds since 1970. */
export interface Claims {
    issuer: string;
    /** The environment in which the call may run. */
    audience: string;
    /** The agent that may run it. */
    subject: string;
    issuedAt: number;
    notBefore: number;
    expires: number;
    id: string;
    approvalId: string;
    outcome: string;
    /** Of tool and arguments. */
    digest: string;
    policyDigest: string;
    /** null when there are none. */
    constraints: Record<string, unknown> | null;
}
/** What a token has to say to be believed. subject and digest are compared when they are there. */
export interface Expect {
    issuer: string;
    audience: string;
    subject?: string;
    digest?: string;
    /** In seconds since 1970; the clock when left out. */
    now?: number;
}
/**
 * Checks a token against the server's /.well-known/jwks.json, and returns its claims. Throws InvalidToken. Genuine is
 * not unspent: only redeeming a token tells whether it still permits anything.
 */
export declare function verifyToken(jwks: string, token: string, want: Expect): Claims;
