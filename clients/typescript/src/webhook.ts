// Whether a webhook is one of the server's: Standard Webhooks, version 1, with a shared secret.

import { createHmac, timingSafeEqual } from "node:crypto";
import { InvalidWebhook } from "./errors.js";

/** In seconds, either way. */
const TOLERANCE = 300;
/** In bytes. */
const MIN_KEY = 24;

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
export type WebhookHeaders = { get(name: string): string | null } | Record<string, string | string[] | undefined>;

/**
 * Checks a webhook by its secret ("whsec_…"), and returns what it says. body is what came, byte for byte. Throws InvalidWebhook
 * when it is not genuine, or older than five minutes. Somebody who overheard it may send it again within these: remember id for
 * as long. now is in seconds since 1970; the clock when left out.
 */
export function verifyWebhook(secret: string, headers: WebhookHeaders, body: Uint8Array | string, now?: number): Webhook {
  const key = readKey(secret);
  const [id, stamp, signatures] = ["id", "timestamp", "signature"].map((name) => header(headers, "webhook-" + name)) as [string, string, string];
  if (!/^[0-9]{1,15}$/.test(stamp)) throw new InvalidWebhook("its timestamp is no number of seconds");
  if (!(Math.abs(Math.floor(now ?? Date.now() / 1000) - Number(stamp)) <= TOLERANCE)) throw new InvalidWebhook("it is not of these five minutes");
  const want = Buffer.from("v1," + createHmac("sha256", key).update(`${id}.${stamp}.`).update(body).digest("base64"));
  const fits = signatures.split(" ").map((text) => {
    const got = Buffer.from(text);
    return got.length === want.length && timingSafeEqual(got, want);
  });
  if (!fits.includes(true)) throw new InvalidWebhook("no signature fits");
  let said: unknown;
  try {
    said = JSON.parse(typeof body === "string" ? body : new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    said = null;
  }
  if (!isObject(said) || !isObject(said["data"])) throw new InvalidWebhook("its body says nothing that is known");
  const data = said["data"];
  const { type } = said;
  const { approval_id: approvalId = "", status = "" } = data;
  if (typeof type !== "string" || typeof approvalId !== "string" || typeof status !== "string") throw new InvalidWebhook("its body says nothing that is known");
  return { id, type, approvalId, status, data };
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

function readKey(secret: string): Buffer {
  const text = secret.slice("whsec_".length);
  const key = Buffer.from(text, "base64");
  if (!secret.startsWith("whsec_") || key.length < MIN_KEY || key.toString("base64") !== text) throw new InvalidWebhook("the secret is none");
  return key;
}

function header(headers: WebhookHeaders, name: string): string {
  const found =
    typeof headers.get === "function"
      ? [(headers as { get(name: string): string | null }).get(name)]
      : Object.entries(headers as Record<string, string | string[] | undefined>).filter(([key]) => key.toLowerCase() === name).flatMap(([, value]) => value);
  const [value] = found;
  if (found.length !== 1 || !value || /[^\x00-\x7f]/.test(value)) throw new InvalidWebhook(`the header ${name} is not there once`);
  return value;
}
