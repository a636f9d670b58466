// A file that outlives the process: what has been proposed, approved, begun and done. It is append-only, one JSON object
// in a line, and each line is on the disk before what it announces is done. docs/clients.md has the format, which the
// clients of all languages share.
//
// What makes a call run at most once is the line "begun": of all processes that would run a call, only the one whose
// "begun" comes first in the file runs it. A line that a crash has cut off is no line, and what it would have announced
// has not been done.

import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import * as path from "node:path";
import { JournalError } from "./errors.js";
import { encode, identity, isObject, isOwnKey, isRead, type Json } from "./wire.js";

/** What the journal says of one call. */
export interface Entry {
  call: string;
  step: "" | "proposed" | "waiting" | "redeeming" | "begun" | "ran" | "over";
  tool: string;
  /** The idempotency key of the proposal, and the proposal as it was sent. */
  key: string;
  body: string;
  headers: Record<string, string>;
  approval: string;
  redeemKey: string;
  redeemBody: string;
  /** Of all redemptions, by whomever. */
  redeemKeys: string[];
  /** What was sent under each. */
  redeemBodies: string[];
  /** The call's name is the caller's own key. */
  named: boolean;
  /** Whose "begun" counts. */
  by: string;
  /** What became of the call, once it ran. */
  outcome: string;
  milliseconds: number;
  /** Why it is over: reported, refused, … */
  why: string;
}

export function newEntry(call: string, approval = ""): Entry {
  return { call, step: "", tool: "", key: "", body: "", headers: {}, approval, redeemKey: "", redeemBody: "", redeemKeys: [], redeemBodies: [], named: false, by: "", outcome: "", milliseconds: 0, why: "" };
}

const members: Record<string, string[]> = {
  proposed: ["tool", "key", "body"],
  waiting: ["approval"],
  redeeming: ["approval", "key", "body"],
  begun: ["by"],
  ran: ["outcome"],
  over: ["why"],
};

/** Reads one more line about a call. */
function take(e: Entry, line: Json): void {
  const step = line["step"] as Entry["step"];
  const needed = Object.hasOwn(members, step) ? members[step]! : undefined;
  if (!needed || !needed.every((name) => typeof line[name] === "string")) return; // of a later version, or it says too little
  // Only the first to begin has begun, and nobody else can undo it.
  const dropped = step === "over" && line["by"] === e.by;
  if ((e.step === "begun" && step !== "ran" && !dropped) || (e.step === "ran" && step !== "ran" && step !== "over")) return;
  // What did not run may be proposed again under its key.
  if (e.step === "over" && (e.outcome || step !== "proposed")) return;
  const text = (name: string) => line[name] as string;
  switch (step) {
    case "proposed":
      Object.assign(e, newEntry(e.call), { tool: text("tool"), key: text("key"), body: text("body"), named: line["named"] === true, headers: isObject(line["headers"]) ? line["headers"] : {} });
      break;
    case "waiting":
      e.approval = text("approval");
      break;
    case "redeeming":
      e.approval = text("approval");
      e.redeemKey = text("key");
      e.redeemBody = text("body");
      e.redeemKeys = [...e.redeemKeys, e.redeemKey];
      e.redeemBodies = [...e.redeemBodies, e.redeemBody];
      break;
    case "begun":
      e.by = text("by");
      break;
    case "ran":
      e.outcome = text("outcome");
      e.milliseconds = typeof line["ms"] === "number" ? line["ms"] : 0;
      break;
    case "over":
      e.why = text("why");
  }
  e.step = step;
}

/**
 * Whether a call that says the same (identity), without a key of the caller's own, is this one. What was accepted at once, and
 * only reads, may be done anew, whatever became of it.
 */
export function goesOnAs(e: Entry, sought: string): boolean {
  if (!sought || e.named || e.step === "" || e.step === "over" || isOwnKey(e.call, e.body)) return false;
  if ((e.step === "begun" || e.step === "ran") && !e.approval && isRead(e.body)) return false;
  return identity(e.body, e.headers) === sought;
}

/** A journal in a file, which is made with mode 0600: it holds arguments and tokens. */
export class Journal {
  #fd: number;
  #entries = new Map<string, Entry>();
  #readTo = 0;

  constructor(readonly path: string) {
    this.#fd = this.#tried("open", () => {
      const made = !fs.existsSync(path);
      const fd = fs.openSync(path, "a+", 0o600);
      if (made) syncDirectory(path);
      return fd;
    });
    this.#tried("read", () => this.#readOn());
  }

  close(): void {
    fs.closeSync(this.#fd);
  }

  /** What is known of a call. */
  entry(call: string): Entry | undefined {
    this.#tried("read", () => this.#readOn());
    const e = this.#entries.get(call);
    return e && { ...e };
  }

  /** All calls, the oldest first. */
  all(): Entry[] {
    this.#tried("read", () => this.#readOn());
    return [...this.#entries.values()].map((e) => ({ ...e }));
  }

  /** The calls that are not over. */
  unfinished(): Entry[] {
    return this.all().filter((e) => e.step !== "over");
  }

  /** Appends a line. When this returns, it is on the disk. */
  write(call: string, step: string, more: Json): void {
    // The line break before it ends a line that a crash has cut off.
    const data = Buffer.from(`\n${encode({ call, step, at: new Date().toISOString(), ...more })}\n`);
    this.#tried("write to", () => {
      if (fs.writeSync(this.#fd, data) !== data.length) throw new Error("the disk is full");
      fs.fsyncSync(this.#fd);
      this.#readOn();
    });
  }

  /** Claims the one right to run a call, and returns the claim's name. "": somebody else has begun it, or it is over. */
  begin(call: string): string {
    const by = randomBytes(8).toString("hex");
    this.write(call, "begun", { by });
    const e = this.#entries.get(call);
    return e?.step === "begun" && e.by === by ? by : "";
  }

  /** Reads the lines that have been added since, by whomever. */
  #readOn(): void {
    const size = fs.fstatSync(this.#fd).size;
    const data = Buffer.alloc(Math.max(size - this.#readTo, 0));
    let filled = 0;
    while (filled < data.length) {
      const read = fs.readSync(this.#fd, data, filled, data.length - filled, this.#readTo + filled);
      if (read === 0) break;
      filled += read;
    }
    const end = data.subarray(0, filled).lastIndexOf("\n") + 1;
    this.#readTo += end;
    for (const text of data.toString("utf8", 0, end).split("\n")) {
      let line: unknown;
      try {
        line = JSON.parse(text);
      } catch {
        continue;
      }
      if (!isObject(line) || typeof line["call"] !== "string" || typeof line["step"] !== "string") continue;
      const e = this.#entries.get(line["call"]) ?? newEntry(line["call"]);
      take(e, line);
      if (e.step) this.#entries.set(e.call, e);
    }
  }

  #tried<T>(what: string, act: () => T): T {
    try {
      return act();
    } catch (error) {
      throw new JournalError(`${what} the journal ${this.path}: ${(error as Error).message}`);
    }
  }
}

/** Puts a new file's name on the disk, where directories can be opened. */
function syncDirectory(file: string): void {
  try {
    const fd = fs.openSync(path.dirname(path.resolve(file)), "r");
    try {
      fs.fsyncSync(fd);
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    // not on this system
  }
}
