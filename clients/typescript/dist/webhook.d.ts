/** What a genuine webhook says. It permits nothing: read the approval with the agent's own key. */
export interface Webhook {
    /** The same for every attempt: pass over what you have seen. */
    id: string;
    type: string;
    /** "" when it is about none. */
    approvalId: string;
    /** The approval's. */
    status: string;
    data: Record<string, unknown>;
}
/** Headers of a request, as Node or fetch have them. */
export type WebhookHeaders = {
    get(name: string): string | null;
} | Record<string, string | string[] | undefined>;
/**
 * Checks a webhook by its secret ("whsec_…"), and returns what it says. body is what came, byte for byte. Throws InvalidWebhook
 * when it is not genuine, or older than five minutes. Somebody who overheard it may send it again within these: remember id for
 * as long. now is in seconds since 1970; the clock when left out.
 */
export declare function verifyWebhook(secret: string, headers: WebhookHeaders, body: Uint8Array | string, now?: number): Webhook;
