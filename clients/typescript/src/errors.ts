// What can go wrong. Each of these, from whatever function, means: the call is not permitted.
// Two mean more: Unreported, after the call has run, and OutcomeUnknown, where it may have.

import type { Approval, Decision } from "./wire.js";

/** The base of all errors of this package. */
export class HoldpointError extends Error {
  /** The same may do better in a moment. */
  readonly retryable: boolean = false;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server gave no answer. */
export class Unreachable extends HoldpointError {
  override readonly retryable = true;
}

/** Where in a body something is wrong. */
export interface FieldError {
  path: string;
  message: string;
}

/** An error that the server answered with (RFC 9457). code is stable and meant for programs. */
export class Problem extends HoldpointError {
  override readonly retryable: boolean;
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly errors: FieldError[];
  /** The approval by which people are asked anew for a call that is stale; "" otherwise. */
  readonly successor: string;

  constructor(
    readonly status: number,
    document: Record<string, unknown>,
    /** How many seconds the server asks to be left alone; 0 when it does not. */
    readonly retryAfter = 0,
    /** Finds the request in the server's log. */
    readonly requestId = "",
  ) {
    const text = (name: string) => (typeof document[name] === "string" ? (document[name] as string) : "");
    super(text("code") + (text("detail") ? ": " + text("detail") : "") + (requestId ? ` (request ${requestId})` : ""));
    this.code = text("code");
    this.title = text("title");
    this.detail = text("detail");
    this.errors = Array.isArray(document["errors"]) ? (document["errors"] as FieldError[]) : [];
    this.successor = text("successor");
    this.retryable = [429, 502, 503, 504].includes(status);
  }
}

/** The most, in seconds, that a server may ask for in Retry-After. */
const MAX_RETRY_AFTER = 600;

/** Reads an answer that is not a 2xx. What is no problem document gets the code "http_" and its status. */
export function problemOf(status: number, headers: { get(name: string): string | null }, body: string, now = Date.now()): Problem {
  let document: unknown;
  if ((headers.get("content-type") ?? "").split(";")[0]!.trim().toLowerCase() === "application/problem+json") {
    try {
      document = JSON.parse(body);
    } catch {
      // it is no problem document
    }
  }
  const known = typeof document === "object" && document !== null && typeof (document as { code?: unknown }).code === "string" && (document as { code: string }).code !== "";
  const said = known ? (document as Record<string, unknown>) : { code: `http_${status}`, detail: `The server answered ${status} without saying why.` };
  return new Problem(status, said, retryAfter(headers.get("retry-after") ?? "", now), headers.get("x-request-id") ?? "");
}

/** Reads Retry-After, which is seconds or a date. */
export function retryAfter(text: string, now = Date.now()): number {
  text = text.trim();
  if (/^[0-9]+$/.test(text)) return Math.min(Number(text), MAX_RETRY_AFTER);
  const at = /^[A-Z][a-z]{2}, /.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(at) ? 0 : Math.min(Math.max((at - now) / 1000, 0), MAX_RETRY_AFTER);
}

/** The call was refused at once, or people did not approve it. The tool has not run. */
export class Refused extends HoldpointError {
  constructor(
    readonly tool: string,
    readonly decision: Decision | undefined,
    text = "",
  ) {
    const codes = decision ? (decision.hardBlockers.length ? decision.hardBlockers : decision.reasons) : [];
    const wrong = decision?.invalid ?? [];
    super(text || `${tool} was refused: ${codes.join(", ")}${wrong.length ? ` (${wrong.join("; ")})` : ""}`);
  }
}

/** People did not approve the call: it was denied, or has expired, or was taken back. */
export class NotApproved extends Refused {
  constructor(readonly approval: Approval) {
    const { denial } = approval;
    let text = `${approval.toolName} was not approved: ${approval.status}`;
    if (denial) text += ` (${denial.kind})` + (denial.comment ? ` ${JSON.stringify(denial.comment)}` : "");
    else if (approval.reasons.length) text += ": " + approval.reasons.map((reason) => reason.message).join("; ");
    super(approval.toolName, undefined, text);
  }
}

/**
 * The wait was ended from this side, by a timeout or a signal. The approval goes on waiting; with a journal,
 * the call is one of Client.unfinished().
 */
export class Stopped extends HoldpointError {
  constructor(
    readonly approvalId: string,
    options?: ErrorOptions,
    takenBack = false,
  ) {
    super(`the wait for ${approvalId || "the server"} was stopped; it ${takenBack ? "was taken back" : "goes on waiting"}`, options);
  }
}

/** The call may run under constraints only, and the tool does not take them. It has not run. */
export class ConstraintsNotKept extends HoldpointError {}

/** A reviewer changed the arguments to ones that the tool does not take. It has not run. */
export class EditNotUsable extends HoldpointError {}

/**
 * The call had begun before. Whether it ran, nobody knows; it is not run again. Look at what it would have
 * changed, and say so: Unfinished.settle.
 */
export class OutcomeUnknown extends HoldpointError {
  constructor(
    readonly call: string,
    readonly approvalId: string,
  ) {
    super(`the call ${call} had begun, and it is unknown whether it ran: unless another process of this journal is running it now, look, and settle it (Client.unfinished)`);
  }
}

/** The call ran before; outcome is what became of it, "" if that is on record elsewhere. */
export class AlreadyDone extends HoldpointError {
  constructor(
    readonly call: string,
    readonly outcome: string,
    options?: ErrorOptions,
  ) {
    super(`the call ${call} has run before: ${outcome || "the server knows what became of it"}`, options);
  }
}

/** The call ran, but that could not be reported. Do not run it again because of that. */
export class Unreported extends HoldpointError {
  constructor(
    readonly approvalId: string,
    /** What the tool returned. */
    readonly value: unknown,
    /** What the tool threw, if it did. */
    readonly error: unknown,
    options?: ErrorOptions,
  ) {
    super(`the call of ${approvalId} ran, but that could not be reported`, options);
  }
}

/** The journal cannot be written or read, or belongs to another call. The call has not run. */
export class JournalError extends HoldpointError {}

/** The token is not believed. No reason quotes it. */
export class InvalidToken extends HoldpointError {}

/** The webhook is not believed. No reason quotes it. */
export class InvalidWebhook extends HoldpointError {}

/** For tools to throw, when they do not know whether they had their effect: reported as unknown. */
export class Uncertain extends Error {
  override name = "Uncertain";
}
