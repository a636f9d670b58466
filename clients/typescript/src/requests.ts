// The requests: check, wait, redeem, report, cancel, list, and answers from the agent's side.

import { randomBytes } from "node:crypto";
import { HoldpointError, Problem, problemOf, retryAfter, Stopped, Unreachable } from "./errors.js";
import { messages } from "./sse.js";
import { Approval, checkBody, checkHeaders, Decision, encode, isObject, redeemBody, redemptionOf, type Json, type Outcome, type Proposal, type Redemption, type Status } from "./wire.js";

const TRIES = 4;
const HOLD = 25; // seconds for which the server holds an answer
const ANSWER_WITHIN = 15_000;
const SILENCE = 40_000; // a stream says something every 15 seconds
const MAX_ANSWER = 8 << 20;
const LONGEST_PAUSE = 5_000;
// Neither says what there is instead: that may be the other one, or hold a secret.
const NO_URL = "the URL (HOLDPOINT_URL) is no address of a server: it is like http://127.0.0.1:8080 or https://holdpoint.example.com";
const NO_KEY = "the key (HOLDPOINT_API_KEY) is no API key: it has a blank, a line break or another character that no key has";

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

interface Ask {
  method: "GET" | "POST";
  path: string;
  headers?: Record<string, string>;
  body?: string;
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** The requests of one agent. */
export class Requests {
  readonly #url: string;
  readonly #key: string;
  readonly #fetch: typeof fetch;
  readonly #firstPause: number;

  constructor(options: Options) {
    const url = (options.url ?? ofEnvironment("HOLDPOINT_URL", "url")).trim();
    if (!/^https?:\/\/[^/?#]+[^?#]*$/.test(url) || !isAddress(url)) throw new TypeError(NO_URL);
    this.#url = url.replace(/\/+$/, "");
    this.#key = (options.key ?? ofEnvironment("HOLDPOINT_API_KEY", "agent_key")).trim(); // a file's last line ends
    if (/[^!-~]/.test(this.#key)) throw new TypeError(NO_KEY);
    this.#fetch = options.fetch ?? fetch;
    this.#firstPause = options.firstPause ?? 200;
  }

  /** Proposes a call. Run it when accepted; wait when it has an approval; else it is refused. */
  check(tool: string, args: object, proposal: Proposal = {}, idempotencyKey = newKey()): Promise<Decision> {
    return this.checkBody(checkBody(tool, args, proposal), checkHeaders(proposal), idempotencyKey);
  }

  /** check with the very text that was sent before. */
  async checkBody(body: string, headers: Record<string, string>, idempotencyKey: string): Promise<Decision> {
    return new Decision(await this.#post("/v1/pre-tool-check", body, idempotencyKey, headers));
  }

  /** Reads an approval as it is now, with a fresh token if it is approved. */
  async get(approvalId: string): Promise<Approval> {
    return approvalOf((await this.#ask({ method: "GET", path: approvalPath(approvalId) })).json);
  }

  /** This agent's own approvals, the newest first, without tokens. */
  async *list(filter: { status?: Status; toolName?: string; session?: string } = {}): AsyncGenerator<Approval> {
    const wanted = { status: filter.status, tool_name: filter.toolName, session: filter.session };
    for (let cursor = ""; ; ) {
      const query = new URLSearchParams(Object.entries({ ...wanted, cursor }).filter((member): member is [string, string] => !!member[1]));
      const page = (await this.#ask({ method: "GET", path: `/v1/approvals?${query}` })).json;
      if (!isObject(page) || !Array.isArray(page["approvals"])) throw new HoldpointError("the server's answer is no list of approvals");
      yield* page["approvals"].map(approvalOf);
      if (typeof page["next_cursor"] !== "string" || !page["next_cursor"]) return;
      cursor = page["next_cursor"];
    }
  }

  /**
   * Waits until the approval is over, through outages and restarts of the server. It follows the server's events; where
   * they do not arrive (a proxy that keeps them back), it asks, and each answer is held until something changes. Throws
   * Stopped when the signal or the time ends the wait: the approval goes on waiting, cancel takes it back. Throws Problem
   * when the server says that waiting is of no use.
   */
  async wait(approvalId: string, options: WaitOptions = {}): Promise<Approval> {
    const end = new AbortController();
    const abort = () => end.abort(options.signal?.reason);
    if (options.signal?.aborted) abort();
    options.signal?.addEventListener("abort", abort, { once: true });
    const timer = options.timeoutMs === undefined ? undefined : setTimeout(() => end.abort(new Error("the time is over")), options.timeoutMs);
    try {
      return await this.#wait(approvalId, end.signal, new Listeners(options));
    } catch (error) {
      if (error instanceof OwnError) throw error.error;
      throw end.signal.aborted ? new Stopped(approvalId, { cause: end.signal.reason }) : error;
    } finally {
      clearTimeout(timer);
      options.signal?.removeEventListener("abort", abort);
    }
  }

  async #wait(approvalId: string, signal: AbortSignal, told: Listeners): Promise<Approval> {
    let streams = 2, seen = "", pause = this.#firstPause;
    for (;;) {
      let asked = 0;
      try {
        if (streams > 0) {
          const { approval, fruitful } = await this.#follow(approvalId, signal, told);
          if (approval) return approval;
          streams = fruitful ? 2 : streams - 1;
          if (fruitful) pause = this.#firstPause;
        } else {
          const began = Date.now();
          const { approval, tag, after } = await this.#hold(approvalId, seen, signal);
          if (approval?.final) return approval;
          if (approval) await told.see(approval);
          // It was not held long: the next one comes no sooner than the server asks for.
          if (!tag || tag === seen) await sleep(after * 1000 - (Date.now() - began), signal);
          seen = tag;
          pause = this.#firstPause;
          continue;
        }
      } catch (error) {
        if (!(error instanceof HoldpointError && error.retryable)) throw error;
        if (error instanceof Problem) asked = error.retryAfter * 1000;
      }
      await sleep(Math.max(pause, asked), signal);
      pause = Math.min(2 * pause, LONGEST_PAUSE);
    }
  }

  /** Reads the stream: the approval once it is final, and whether anything was said at all. */
  async #follow(approvalId: string, signal: AbortSignal, told: Listeners): Promise<{ approval?: Approval; fruitful: boolean }> {
    const silence = new Silence(signal, SILENCE);
    let fruitful = false;
    try {
      const path = approvalPath(approvalId) + "/events";
      const answer = await this.#open({ method: "GET", path, headers: { Accept: "text/event-stream" }, signal: silence.signal });
      if (!answer.ok) {
        const problem = problemOf(answer.status, answer.headers, await bodyOf(answer));
        // Something between that has no streams.
        if (problem.status === 406 || problem.code === "http_404") return { fruitful };
        throw problem;
      }
      if ((answer.headers.get("content-type") ?? "").split(";")[0]!.trim() !== "text/event-stream" || !answer.body) {
        await answer.body?.cancel();
        return { fruitful };
      }
      for await (const message of messages(silence.heard(answer.body))) {
        const approval = approvalOf(JSON.parse(message.data));
        if (message.event !== "approval" || approval.id !== approvalId) continue;
        fruitful = true;
        if (approval.final) return { approval, fruitful };
        await told.see(approval);
      }
    } catch (error) {
      if (error instanceof OwnError || error instanceof Problem || error instanceof Unreachable || signal.aborted) throw error; // else it broke off
    } finally {
      silence.end();
    }
    return { fruitful };
  }

  /** Asks once, and has the answer held until something changes. */
  async #hold(approvalId: string, seen: string, signal: AbortSignal): Promise<{ approval?: Approval; tag: string; after: number }> {
    const { status, headers, json } = await this.#ask({
      method: "GET",
      path: `${approvalPath(approvalId)}?wait=${HOLD}`,
      headers: seen ? { "If-None-Match": seen } : {},
      timeoutMs: HOLD * 1000 + ANSWER_WITHIN,
      signal,
    });
    const rest = { tag: headers.get("etag") ?? "", after: retryAfter(headers.get("retry-after") ?? "") };
    return status === 304 ? rest : { approval: approvalOf(json), ...rest };
  }

  /** Takes back a call that still waits. */
  async cancel(approvalId: string): Promise<Approval> {
    return approvalOf(await this.#post(approvalPath(approvalId) + "/cancel", "{}"));
  }

  /** Says, with a key of kind runtime, what the user said of this very call. */
  async answer(approvalId: string, confirmed: boolean, more: { digest?: string; comment?: string } = {}): Promise<Approval> {
    return approvalOf(await this.#post(approvalPath(approvalId) + "/answers", encode({ confirmed, ...more })));
  }

  /** Answers the question of a reviewer. */
  async inform(approvalId: string, information: string): Promise<Approval> {
    return approvalOf(await this.#post(approvalPath(approvalId) + "/answers", encode({ information })));
  }

  /** Names the ticket that covers a call whose nextAction is attach_ticket. */
  async attachTicket(approvalId: string, ticket: string, system?: string): Promise<Approval> {
    return approvalOf(await this.#post(approvalPath(approvalId) + "/ticket", encode({ ticket, system })));
  }

  /**
   * Spends a token. Run the call only when this resolves, and only once. A redemption that is replayed was answered before,
   * under the same key: run the call only if your own records say that it has not begun.
   */
  redeem(token: string, tool: string, args: object, preconditions?: Readonly<Record<string, string>>, idempotencyKey = newKey()): Promise<Redemption> {
    return this.redeemBody(redeemBody(token, tool, args, preconditions), idempotencyKey);
  }

  /** redeem with the very text that was sent before. */
  async redeemBody(body: string, idempotencyKey: string): Promise<Redemption> {
    const redeemed = redemptionOf(await this.#post("/v1/tokens/redeem", body, idempotencyKey));
    if (!redeemed) throw new HoldpointError("the server did not say that the token is redeemed");
    return redeemed;
  }

  /** Says what became of a call after its token was redeemed. */
  async report(approvalId: string, outcome: Outcome, milliseconds = 0, idempotencyKey = newKey()): Promise<void> {
    await this.#post("/v1/executions", encode({ approval_id: approvalId, outcome, duration_ms: Math.round(Math.max(milliseconds, 0)) }), idempotencyKey);
  }

  /** The keys that verifyToken needs. */
  async jwks(): Promise<string> {
    return encode((await this.#ask({ method: "GET", path: "/.well-known/jwks.json" })).json);
  }

  /** Sends a body under a key, and again under the same key when nobody can know whether it arrived. */
  async #post(path: string, body: string, idempotencyKey = newKey(), headers: Record<string, string> = {}): Promise<Json> {
    const sent = { ...headers, "Content-Type": "application/json", "Idempotency-Key": idempotencyKey };
    for (let attempt = 1, pause = this.#firstPause; ; attempt++, pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      try {
        const { json } = await this.#ask({ method: "POST", path, headers: sent, body });
        if (!isObject(json)) throw new HoldpointError("the server's answer is no JSON object");
        return json;
      } catch (error) {
        const temporary = error instanceof Unreachable || (error instanceof Problem && [502, 503, 504].includes(error.status));
        if (!temporary || attempt === TRIES) throw error;
        const asked = error instanceof Problem ? error.retryAfter * 1000 : 0;
        await sleep(Math.max(pause, Math.min(asked, LONGEST_PAUSE)));
      }
    }
  }

  /** Sends a request and reads its JSON. Throws Unreachable and Problem; 304 has no body. */
  async #ask(ask: Ask): Promise<{ status: number; headers: Headers; json: unknown }> {
    const silence = new Silence(ask.signal, ask.timeoutMs ?? ANSWER_WITHIN);
    try {
      const answer = await this.#open({ ...ask, signal: silence.signal });
      const body = await bodyOf(answer);
      if (answer.status === 304) return { status: 304, headers: answer.headers, json: undefined };
      if (!answer.ok) throw problemOf(answer.status, answer.headers, body);
      try {
        return { status: answer.status, headers: answer.headers, json: JSON.parse(body) };
      } catch {
        throw new HoldpointError("the server's answer is not JSON");
      }
    } finally {
      silence.end();
    }
  }

  async #open({ method, path, headers, body, signal }: Ask): Promise<Response> {
    const sent: Record<string, string> = { Accept: "application/json, application/problem+json", "User-Agent": "holdpoint-typescript/0.1.0", ...headers };
    if (this.#key) sent["Authorization"] = "Bearer " + this.#key;
    const began = Date.now();
    try {
      return await this.#fetch(this.#url + path, { method, headers: sent, redirect: "manual", ...(body === undefined ? {} : { body }), ...(signal ? { signal } : {}) });
    } catch (error) {
      throw unreachable(error, this.#url, began);
    }
  }
}

/** Tells that it waits, and of each question of a reviewer, once. */
class Listeners {
  readonly #onQuestion: WaitOptions["onQuestion"];
  #onWait: WaitOptions["onWait"];
  #asked = "";

  constructor(options: WaitOptions) {
    this.#onQuestion = options.onQuestion;
    this.#onWait = options.onWait;
  }

  /** Tells of an approval that is not over. */
  async see(approval: Approval): Promise<void> {
    try {
      const tell = this.#onWait;
      this.#onWait = undefined;
      tell?.(approval);
      const asked = JSON.stringify(approval.raw["question"]);
      if (!this.#onQuestion || !approval.question || asked === this.#asked) return;
      this.#asked = asked;
      await this.#onQuestion(approval);
    } catch (error) {
      throw new OwnError(error);
    }
  }
}

/** What the caller's own function threw, which is no answer of the server's. */
class OwnError extends Error {
  constructor(readonly error: unknown) {
    super();
  }
}

function isAddress(url: string): boolean {
  try {
    new URL(url);
    return true;
  } catch { // such as a port that is none
    return false;
  }
}

function ofEnvironment(name: string, member: string): string {
  const value = process.env[name];
  if (!value) throw new HoldpointError(`${name} is not set (“holdpoint dev” writes it to .holdpoint/dev.json, as ${member})`);
  return value;
}

async function bodyOf(answer: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  try {
    if (answer.body) {
      for await (const part of answer.body) {
        parts.push(part);
        size += part.length;
        if (size > MAX_ANSWER) throw new HoldpointError("the answer is too large");
      }
    }
  } catch (error) {
    throw error instanceof HoldpointError ? error : unreachable(error);
  }
  return Buffer.concat(parts).toString("utf8");
}

/** Without what fetch wraps around the cause, which says nothing new. */
function unreachable(error: unknown, url?: string, began = 0): Unreachable {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const code = (cause as { code?: unknown } | null)?.code;
  const server = `the server${url ? ` at ${new URL(url).origin}` : ""}`;
  if (began && error instanceof Error && error.name === "AbortError") return new Unreachable(`${server} gave no answer in ${((Date.now() - began) / 1000).toFixed(1)} seconds`);
  return new Unreachable(`${server} cannot be reached: ${typeof code === "string" ? code : cause instanceof Error ? cause.message : "no answer"}`);
}

/** Ends a request when its caller does, or after a silence of so many milliseconds. */
class Silence {
  readonly #end = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #abort = () => this.#end.abort();
  readonly #timer: NodeJS.Timeout;

  constructor(outer: AbortSignal | undefined, milliseconds: number) {
    this.#outer = outer;
    if (outer?.aborted) this.#abort();
    outer?.addEventListener("abort", this.#abort, { once: true });
    this.#timer = setTimeout(this.#abort, milliseconds);
  }

  get signal(): AbortSignal {
    return this.#end.signal;
  }

  /** Passes on what comes, and begins the silence anew with each piece. */
  async *heard(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of body) {
      this.#timer.refresh();
      yield piece;
    }
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#outer?.removeEventListener("abort", this.#abort);
    this.#end.abort(); // whatever is still open is closed
  }
}

function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(new Error("aborted"));
    const abort = () => {
      clearTimeout(timer);
      reject(new Error("aborted"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, Math.max(milliseconds, 0));
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** An idempotency key that nobody has used. */
export function newKey(): string {
  return randomBytes(16).toString("hex");
}

function approvalPath(approvalId: string): string {
  return "/v1/approvals/" + encodeURIComponent(approvalId);
}

function approvalOf(raw: unknown): Approval {
  if (!isObject(raw) || typeof raw["id"] !== "string") throw new HoldpointError("the server's answer is no approval");
  return new Approval(raw);
}
