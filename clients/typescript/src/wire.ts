// What is sent and answered: a call, the decision on it, and the approval that it waits for.

import { canonical } from "./canon.js";

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
export function checkBody(tool: string, args: object, p: Proposal): string {
  return encode({
    tool_name: tool,
    tool_category: p.category ?? "unknown",
    authorization_state: p.authorizationState ?? "none",
    evidence_refs: p.evidence ?? [],
    risk_domain: p.riskDomain ?? "unknown",
    proposed_arguments: args,
    recommended_route: p.route ?? "accept",
    ...(p.intent ? { user_intent: p.intent } : {}),
    ...(p.onBehalfOf ? { authorization_subject: { subject_ref: p.onBehalfOf } } : {}),
    ...(p.requestId ? { request_id: p.requestId } : {}),
    ...(p.separate ? { separate: true } : {}),
    ...(p.wantToken ? { want_token: true } : {}),
  });
}

/** The headers of a check. */
export function checkHeaders(p: Proposal): Record<string, string> {
  return {
    ...(p.session ? { [SESSION]: p.session } : {}),
    ...(p.preconditions && Object.keys(p.preconditions).length ? { [PRECONDITIONS]: encode(p.preconditions) } : {}),
  };
}

export const PRECONDITIONS = "Holdpoint-Preconditions";
const SESSION = "Holdpoint-Session";

/**
 * What makes two proposals one call: tool, arguments, on whose behalf, session, preconditions, and what decides how strictly
 * it is judged. A call that asks for more people than the unfinished one did is another call. "" for a call that is to be apart
 * from its equals (separate).
 */
export function identity(body: string, headers: Record<string, string>): string {
  const event = JSON.parse(body) as Json;
  if (event["separate"]) return "";
  const depends: unknown = JSON.parse(headers[PRECONDITIONS] || "{}");
  const judged = ["recommended_route", "tool_category", "risk_domain", "authorization_state"].map((name) => event[name] ?? "");
  try {
    return canonical([event["tool_name"] ?? null, event["proposed_arguments"] ?? null, json(event["authorization_subject"]), headers[SESSION] ?? "", depends, ...judged]);
  } catch {
    return ""; // the server does not read it either
  }
}

/**
 * Whether a call's name is a key of the caller's own, in a journal of a version that did not write so: calls under such a key
 * ask for a token, and its form is none of ours, in whichever language.
 */
export function isOwnKey(call: string, body: string): boolean {
  return !/^(?:[A-Z2-7]{26}|[0-9a-f]{32})$/.test(call) && (JSON.parse(body) as Json)["want_token"] === true;
}

export function isRead(body: string): boolean {
  return ["public_read", "private_read"].includes((JSON.parse(body) as Json)["tool_category"] as string);
}

/** The body of a redemption. */
export function redeemBody(token: string, tool: string, args: object, preconditions?: Readonly<Record<string, string>>): string {
  const depends = preconditions && Object.keys(preconditions).length ? { preconditions } : {};
  return encode({ token, tool_name: tool, arguments: args, ...depends });
}

/** JSON, which has no NaN: JSON.stringify would say null instead. */
export function encode(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => {
    if (typeof each === "number" && !Number.isFinite(each)) throw new TypeError("a number is not JSON");
    return each;
  });
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const json = (value: unknown): Json => (isObject(value) ? value : {});
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export type Status = "pending" | "approved" | "denied" | "expired" | "cancelled";

/** What kind of no it was. */
export interface Denial {
  kind: string; // wrong_args, not_now, never, needs_info
  retryable?: boolean;
  retry_after?: number;
  comment?: string;
}

/** A call that waits, or has waited, for people. */
export class Approval {
  readonly id: string;
  readonly status: string; // a Status, or one that is not known
  readonly toolName: string;
  readonly expiresAt: string;
  readonly digest: string; // of tool and arguments
  readonly nextAction: string; // wait, answer, attach_ticket, verify, none
  readonly execution: string; // none, redeemed, succeeded, failed, unknown
  readonly reasons: { code: string; message: string }[];
  readonly denial: Denial | undefined;
  /** What a reviewer wants to know: Client.inform. */
  readonly question: string;
  readonly successor: string;
  /** The page on which a person decides. */
  readonly review: string;
  /** Set when a reviewer has changed the arguments: these are what is approved, and what runs. */
  readonly edited: Json | undefined;
  #raw: Json;

  constructor(raw: Json) {
    this.#raw = raw;
    this.id = text(raw["id"]);
    this.status = text(raw["status"]);
    this.toolName = text(raw["tool_name"]);
    this.expiresAt = text(raw["expires_at"]);
    this.digest = text(raw["digest"]);
    this.nextAction = text(raw["next_action"]);
    this.execution = text(raw["execution"]);
    this.reasons = list(raw["reasons"]).filter(isObject) as { code: string; message: string }[];
    this.denial = isObject(raw["denial"]) ? (raw["denial"] as unknown as Denial) : undefined;
    this.question = text(json(raw["question"])["text"]);
    this.successor = text(raw["successor"]);
    this.review = text(json(raw["links"])["review"]);
    this.edited = isObject(raw["edited"]) ? json(raw["edited"]["arguments"]) : undefined;
  }

  /** Permits the call to run once; "" unless approved. No member, so that printing an approval does not show it. */
  get token(): string {
    return text(this.#raw["resumption_token"]);
  }

  /** All that the server said. */
  get raw(): Json {
    return this.#raw;
  }

  /** Whether nothing can change the status any more. A status that is not known is not final. */
  get final(): boolean {
    return ["approved", "denied", "expired", "cancelled"].includes(this.status);
  }
}

/** The answer to a proposed call. */
export class Decision {
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
  #raw: Json;

  /** All that the server said. */
  get raw(): Json {
    return this.#raw;
  }

  constructor(raw: Json) {
    this.#raw = raw;
    this.hardBlockers = list(raw["hard_blockers"]).map(String);
    this.reasons = list(raw["reasons"]).map(String);
    this.invalid = list(raw["validation_errors"]).filter(isObject).map((error) => `${error["path"]}: ${error["message"]}`);
    this.constraints = json(raw["constraints"]);
    this.approval = isObject(raw["approval"]) ? new Approval(raw["approval"]) : undefined;
    this.joined = raw["joined"] === true;
    // The contract's six conditions, that the server says so in as many words, that nothing waits, and that it was no dry
    // run. A list that is absent does not count as empty.
    const empty = (value: unknown) => Array.isArray(value) && value.length === 0;
    const absent = (value: unknown) => value === undefined || value === null;
    this.accepted =
      raw["gate_decision"] === "pass" &&
      raw["recommended_action"] === "accept" &&
      json(raw["architecture_decision"])["route"] === "accept" &&
      empty(raw["hard_blockers"]) &&
      empty(json(raw["aix"])["hard_blockers"]) &&
      (absent(raw["validation_errors"]) || empty(raw["validation_errors"])) &&
      json(raw["execution_policy"])["execution_allowed"] === true &&
      json(raw["execution_policy"])["mode"] !== "shadow" &&
      (absent(raw["shadow_mode"]) || raw["shadow_mode"] === false) &&
      absent(raw["approval"]) &&
      (absent(raw["constraints"]) || isObject(raw["constraints"]));
  }
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
export function redemptionOf(raw: unknown): Redemption | undefined {
  if (!isObject(raw) || raw["redeemed"] !== true) return undefined;
  const limits = raw["constraints"];
  if (limits !== undefined && limits !== null && !isObject(limits)) return undefined;
  return { approvalId: text(raw["approval_id"]), constraints: json(limits), leaseUntil: text(raw["lease_until"]), replayed: raw["replayed"] === true };
}

export type Outcome = "succeeded" | "failed" | "unknown";
