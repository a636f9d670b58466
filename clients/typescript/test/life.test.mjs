// The life of guarded calls, against a stand-in for the server.
import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { once } from "node:events";
import { createServer } from "node:net";
import { inspect } from "node:util";
import test from "node:test";
import * as holdpoint from "../dist/index.js";
import { ACCEPTED, APPROVED, DENIED, EDITED, hangsUp, message, PENDING, problem, REDEEMED, REFUSED, says, serve, streams, WAITING } from "./standin.mjs";

const OK = says(200, {});
const followed = (...approvals) => streams(approvals.map(message));
const client = (server, more) => new holdpoint.Client({ url: server.url, key: "hp_test", firstPause: 5, onWait: null, ...more });

/** A tool that notes what it ran with. */
function tool(hp, { does, ...options } = {}) {
  const ran = [];
  const pay = hp.guard({ tool: "pay", category: "write", ...options }, (args, context) => {
    ran.push(args.amount);
    return does ? does(args, context) : "paid";
  });
  return { pay, ran };
}

function journalOf(t, ...lines) {
  const dir = mkdtempSync(join(tmpdir(), "holdpoint-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const path = join(dir, "journal");
  if (lines.length) writeFileSync(path, lines.map((line) => `\n${JSON.stringify({ call: "c", ...line })}\n`).join(""));
  return path;
}
const PROPOSED = { step: "proposed", tool: "pay", key: "c", body: '{"tool_name":"pay","tool_category":"write","authorization_state":"none","evidence_refs":[],"risk_domain":"unknown","proposed_arguments":{"amount":1},"recommended_route":"accept"}', headers: {} };
const WAITS = { step: "waiting", approval: "apr_1" };
const REDEEMS = { step: "redeeming", approval: "apr_1", key: "k", body: '{"token":"OLD","tool_name":"pay","arguments":{"amount":5}}' };
const BEGUN = { step: "begun", by: "x" };

function resume(server, journal) {
  const hp = client(server, { journal });
  const { ran } = tool(hp);
  const [left, ...more] = hp.unfinished();
  assert.equal(more.length, 0);
  return { hp, left, ran };
}

test("accepted", async (t) => {
  const server = await serve(t, says(200, ACCEPTED));
  const { pay, ran } = tool(client(server));
  assert.equal(await pay({ amount: 1 }), "paid");
  assert.deepEqual(server.lines(), ["POST /v1/pre-tool-check"]);
  assert.equal(server.seen[0].headers.authorization, "Bearer hp_test");
  assert.ok(server.seen[0].headers["idempotency-key"]);
  assert.deepEqual(JSON.parse(server.seen[0].body).proposed_arguments, { amount: 1 });
  assert.deepEqual(ran, [1]);
});

test("refused", async (t) => {
  const { pay, ran } = tool(client(await serve(t, says(200, REFUSED))));
  await assert.rejects(pay({ amount: 1 }), { name: "Refused", message: "pay was refused: runtime_refusal" });
  assert.deepEqual(ran, []);
});

test("approved", async (t) => {
  const server = await serve(t, says(202, WAITING), followed(PENDING, APPROVED), says(200, REDEEMED), OK);
  const args = { amount: 1 };
  const { pay, ran } = tool(client(server));
  const paid = pay(args);
  args.amount = 1000; // what was proposed is what runs
  assert.equal(await paid, "paid");
  assert.deepEqual(server.lines(), ["POST /v1/pre-tool-check", "GET /v1/approvals/apr_1/events", "POST /v1/tokens/redeem", "POST /v1/executions"]);
  assert.deepEqual(JSON.parse(server.seen[2].body), { token: "TOKEN", tool_name: "pay", arguments: { amount: 1 } });
  assert.equal(JSON.parse(server.seen[3].body).outcome, "succeeded");
  assert.deepEqual(ran, [1]);
});

test("denied", async (t) => {
  const { pay, ran } = tool(client(await serve(t, says(202, WAITING), followed(DENIED))));
  await assert.rejects(pay({ amount: 1 }), { name: "NotApproved", message: 'pay was not approved: denied (never) "no"' });
  assert.deepEqual(ran, []);
});

test("edited arguments run as approved", async (t) => {
  const server = await serve(t, says(202, WAITING), followed(EDITED), says(200, REDEEMED), OK);
  const { pay, ran } = tool(client(server));
  await pay({ amount: 1 });
  assert.deepEqual(ran, [2]);
  assert.deepEqual(JSON.parse(server.seen[2].body).arguments, { amount: 2 });
});

test("an edit that the tool does not take", async (t) => {
  const server = await serve(t, says(202, WAITING), followed(EDITED));
  const { pay, ran } = tool(client(server), { parse() { throw new Error("too much"); } });
  await assert.rejects(pay({ amount: 1 }), holdpoint.EditNotUsable);
  assert.deepEqual([ran, server.seen.length], [[], 2]);
});

test("constraints", async (t) => {
  const limited = says(200, { ...REDEEMED, constraints: { max: 1 } });
  let server = await serve(t, says(202, WAITING), followed(APPROVED), limited, OK);
  const one = tool(client(server));
  await assert.rejects(one.pay({ amount: 1 }), holdpoint.ConstraintsNotKept);
  assert.equal(JSON.parse(server.seen[3].body).outcome, "failed");
  const two = tool(client(await serve(t, says(200, { ...ACCEPTED, constraints: { max: 1 } }))));
  await assert.rejects(two.pay({ amount: 1 }), holdpoint.ConstraintsNotKept);
  assert.deepEqual([one.ran, two.ran], [[], []]);
  server = await serve(t, says(202, WAITING), followed(APPROVED), limited, OK);
  const { pay } = tool(client(server), { constraints: true, does: (_, context) => context });
  assert.deepEqual(await pay({ amount: 1 }), { constraints: { max: 1 }, approvalId: "apr_1" });
});

test("outcomes", async (t) => {
  for (const [error, outcome] of [[new TypeError("x"), "failed"], [new holdpoint.Uncertain("x"), "unknown"], [new DOMException("x", "AbortError"), "unknown"], [new DOMException("x", "TimeoutError"), "unknown"]]) {
    const server = await serve(t, says(202, WAITING), followed(APPROVED), says(200, REDEEMED), OK);
    const { pay } = tool(client(server), { does() { throw error; } });
    await assert.rejects(pay({ amount: 1 }), (got) => got === error);
    assert.equal(JSON.parse(server.seen[3].body).outcome, outcome);
  }
});

test("a report that is lost", async (t) => {
  const { pay } = tool(client(await serve(t, says(202, WAITING), followed(APPROVED), says(200, REDEEMED), problem(409, "already_reported"))));
  await assert.rejects(pay({ amount: 1 }), { name: "Unreported", value: "paid", approvalId: "apr_1" });
});

test("fails closed", async (t) => {
  const page = says(200, "<html>", { "Content-Type": "text/html" });
  for (const [step, name] of [
    [hangsUp, "Unreachable"], [problem(503, "event_store_unavailable"), "Problem"], [problem(423, "kill_switch"), "Problem"], [page, "HoldpointError"],
    [says(200, []), "HoldpointError"], [says(200, {}), "Refused"], [says(302, "", { Location: "http://127.0.0.1:1/" }), "Problem"],
  ]) {
    const { pay, ran } = tool(client(await serve(t, step)));
    await assert.rejects(pay({ amount: 1 }), { name });
    assert.deepEqual(ran, []);
  }
  const nobody = await serve(t, OK);
  await nobody.close();
  const { pay, ran } = tool(client(nobody));
  await assert.rejects(pay({ amount: 1 }), { name: "Unreachable", retryable: true });
  for (const redeemed of [problem(409, "token_used"), says(200, {}), problem(423, "kill_switch"), hangsUp]) {
    const waits = tool(client(await serve(t, says(202, WAITING), followed(APPROVED), redeemed)));
    await assert.rejects(waits.pay({ amount: 1 }), holdpoint.HoldpointError);
    assert.deepEqual(waits.ran, []);
  }
  await assert.rejects(pay({ amount: NaN }), TypeError);
  assert.deepEqual(ran, []);
});

test("a POST is repeated under its key", async (t) => {
  let server = await serve(t, hangsUp, problem(503, "event_store_unavailable"), says(200, ACCEPTED));
  await tool(client(server)).pay({ amount: 1 });
  assert.equal(server.seen.length, 3);
  assert.equal(new Set(server.seen.map((r) => r.headers["idempotency-key"])).size, 1);
  server = await serve(t, problem(429, "RATE_LIMIT_AGENT", { "Retry-After": "7" }));
  await assert.rejects(tool(client(server)).pay({ amount: 1 }), { retryable: true, retryAfter: 7 });
  assert.equal(server.seen.length, 1);
});

test("waits through breaks", async (t) => {
  const server = await serve(t, followed(PENDING), hangsUp, streams(['event: approval\ndata: {"status":"app']), followed(APPROVED));
  assert.equal((await client(server).wait("apr_1")).status, "approved");
  assert.equal(server.seen.length, 4);
});

test("falls back to asking", async (t) => {
  const page = says(200, "<html>", { "Content-Type": "text/html" });
  const pending = says(200, PENDING, { ETag: '"r1"', "Retry-After": "0" });
  const server = await serve(t, page, page, pending, says(304, "", { ETag: '"r1"', "Retry-After": "0" }), hangsUp, says(200, APPROVED, { ETag: '"r2"' }));
  assert.equal((await client(server).wait("apr_1")).status, "approved");
  assert.deepEqual(server.lines().slice(2), Array(4).fill("GET /v1/approvals/apr_1?wait=25"));
  assert.deepEqual(server.seen.slice(2).map((r) => r.headers["if-none-match"]), [undefined, '"r1"', '"r1"', '"r1"']);
});

test("a wait that is of no use", async (t) => {
  for (const step of [problem(404, "not_found"), problem(401, "unauthenticated")]) await assert.rejects(client(await serve(t, step)).wait("apr_1"), holdpoint.Problem);
});

test("a stopped wait leaves the approval", async (t) => {
  const waits = streams([message(PENDING)], { open: true });
  let server = await serve(t, says(202, WAITING), waits);
  await assert.rejects(tool(client(server), { timeoutMs: 100 }).pay({ amount: 1 }), { name: "Stopped", approvalId: "apr_1" });
  assert.equal(server.seen.length, 2);
  server = await serve(t, says(202, WAITING), waits, says(200, PENDING));
  await assert.rejects(tool(client(server), { timeoutMs: 100, cancelWhenStopped: true }).pay({ amount: 1 }), { name: "Stopped", message: "the wait for apr_1 was stopped; it was taken back" });
  assert.equal(server.lines()[2], "POST /v1/approvals/apr_1/cancel");
  const end = new AbortController();
  const journal = journalOf(t);
  server = await serve(t, says(202, WAITING), (...answer) => { waits(...answer); end.abort(new Error("enough")); });
  const hp = client(server, { journal });
  await assert.rejects(tool(hp).pay({ amount: 1 }, { signal: end.signal }), (error) => error instanceof holdpoint.Stopped && error.cause.message === "enough");
  assert.deepEqual(hp.unfinished().map((left) => left.state), ["waiting"]);
  await assert.rejects(client(server).wait("apr_1", { signal: AbortSignal.abort() }), holdpoint.Stopped);
});

test("list", async (t) => {
  const server = await serve(t, says(200, { approvals: [PENDING], next_cursor: "c/1" }), says(200, { approvals: [APPROVED] }));
  const got = [];
  for await (const approval of client(server).list({ status: "pending", toolName: "pay" })) got.push(approval.status);
  assert.deepEqual(got, ["pending", "approved"]);
  assert.equal(server.lines()[1], "GET /v1/approvals?status=pending&tool_name=pay&cursor=c%2F1");
});

test("a key of one's own takes a token", async (t) => {
  const approved = says(200, { ...ACCEPTED, approval: APPROVED });
  const server = await serve(t, approved, says(200, REDEEMED), OK);
  assert.equal(await tool(client(server)).pay({ amount: 1 }, { key: "invoice:1" }), "paid");
  assert.equal(server.seen[0].headers["idempotency-key"], "invoice:1");
  assert.equal(JSON.parse(server.seen[0].body).want_token, true);
  const again = tool(client(await serve(t, approved, problem(409, "token_used"))));
  await assert.rejects(again.pay({ amount: 1 }, { key: "invoice:1" }), holdpoint.AlreadyDone);
  assert.deepEqual(again.ran, []);
});

test("nothing secret is said", async (t) => {
  const { pay } = tool(client(await serve(t, says(202, WAITING), followed(APPROVED), problem(409, "token_used"))));
  await assert.rejects(pay({ amount: "4711" }), (error) => !/TOKEN|hp_test|4711/.test(inspect(error)));
  assert.doesNotMatch(inspect(new holdpoint.Approval(APPROVED)), /TOKEN/);
});

test("journal of a whole life", async (t) => {
  const journal = journalOf(t);
  const hp = client(await serve(t, says(202, WAITING), followed(APPROVED), says(200, REDEEMED), OK), { journal });
  const steps = () => readFileSync(journal, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line).step);
  const { pay } = tool(hp, { does: steps });
  assert.deepEqual(await pay({ amount: 1 }), ["proposed", "waiting", "redeeming", "begun"]);
  assert.deepEqual(steps().slice(4), ["ran", "over"]);
  assert.deepEqual(hp.unfinished(), []);
  assert.equal(statSync(journal).mode & 0o777, 0o600);
});

test("resume", async (t) => {
  for (const [name, lines, steps, ran, key] of [
    ["proposed", [PROPOSED], [says(202, WAITING), says(200, PENDING), followed(APPROVED), says(200, REDEEMED), OK], [1], "c"],
    ["waiting", [PROPOSED, WAITS], [followed(EDITED), says(200, REDEEMED), OK], [2]],
    ["redeeming", [PROPOSED, WAITS, REDEEMS], [says(200, { ...REDEEMED, replayed: true }), OK], [5], "k"],
    ["redeeming, the token too old", [PROPOSED, WAITS, REDEEMS], [problem(401, "token_expired"), followed(APPROVED), says(200, REDEEMED), OK], [1], "k"],
  ]) {
    const server = await serve(t, ...steps);
    const resumed = resume(server, journalOf(t, ...lines));
    assert.equal(await resumed.left.resume(), "paid", name);
    assert.deepEqual([resumed.ran, resumed.hp.unfinished()], [ran, []], name);
    if (key) assert.equal(server.seen[0].headers["idempotency-key"], key, name);
  }
  for (const code of ["already_reported", "token_used"]) {
    const { left, ran, hp } = resume(await serve(t, problem(409, code)), journalOf(t, PROPOSED, WAITS, REDEEMS));
    await assert.rejects(left.resume(), holdpoint.AlreadyDone);
    assert.deepEqual([ran, hp.unfinished()], [[], []]);
  }
});

test("what an earlier start left waiting says so, once, while it does", async (t) => {
  for (const [states, want] of [[[PENDING, PENDING, APPROVED], ["pending"]], [[APPROVED], []]]) {
    for (const again of [(hp, { pay }) => pay({ amount: 1 }, { key: "c" }), (hp) => hp.unfinished()[0].resume()]) {
      const server = await serve(t, says(202, WAITING), says(200, PENDING), problem(403, "no_more"), followed(...states), says(200, REDEEMED), OK), told = [];
      const hp = client(server, { journal: journalOf(t), onWait: (approval) => told.push(approval.status) }), guarded = tool(hp);
      await assert.rejects(guarded.pay({ amount: 1 }, { key: "c" }), { code: "no_more" });
      told.length = 0;
      assert.equal(await again(hp, guarded), "paid");
      assert.deepEqual(told, want);
    }
  }
});

test("a kill switch can be waited out", async (t) => {
  const stopped = problem(423, "kill_switch"), journal = journalOf(t, PROPOSED, WAITS, REDEEMS);
  const server = await serve(t, stopped, says(200, APPROVED), followed(APPROVED), stopped, stopped, says(200, APPROVED), followed(APPROVED), says(200, REDEEMED), OK);
  const { left, hp, ran } = resume(server, journal);
  await assert.rejects(left.resume(), { code: "kill_switch" });
  await hp.unfinished()[0].resume();
  assert.deepEqual(ran, [1]);
  // Spent before it was thrown: only the former request can tell.
  const spent = await serve(t, stopped, says(200, { ...APPROVED, execution: "redeemed" }), says(200, { ...REDEEMED, replayed: true }), OK);
  const late = resume(spent, journalOf(t, PROPOSED, WAITS, REDEEMS));
  await assert.rejects(late.left.resume(), { code: "kill_switch" });
  await late.hp.unfinished()[0].resume();
  assert.deepEqual([late.ran, spent.seen[2].headers["idempotency-key"]], [[5], "k"]);
});

test("begun is unknown", async (t) => {
  const server = await serve(t, OK);
  const { left, hp, ran } = resume(server, journalOf(t, PROPOSED, WAITS, REDEEMS, BEGUN));
  await assert.rejects(left.resume(), holdpoint.OutcomeUnknown);
  await assert.rejects(left.drop(), holdpoint.HoldpointError);
  assert.deepEqual([ran, server.seen], [[], []]);
  await left.settle("succeeded");
  assert.equal(JSON.parse(server.seen[0].body).outcome, "succeeded");
  assert.deepEqual(hp.unfinished(), []);
});

test("ran is reported", async (t) => {
  const server = await serve(t, OK);
  const { left, hp, ran } = resume(server, journalOf(t, PROPOSED, WAITS, REDEEMS, BEGUN, { step: "ran", outcome: "failed", ms: 7 }));
  await assert.rejects(left.resume(), { name: "AlreadyDone", outcome: "failed" });
  assert.deepEqual(JSON.parse(server.seen[0].body), { approval_id: "apr_1", outcome: "failed", duration_ms: 7 });
  assert.deepEqual([ran, hp.unfinished()], [[], []]);
});

test("a key of one's own, with a journal", async (t) => {
  const journal = journalOf(t);
  const server = await serve(t, says(200, { ...ACCEPTED, approval: APPROVED }), says(200, REDEEMED), OK);
  await tool(client(server, { journal })).pay({ amount: 1 }, { key: "invoice:1" });
  const again = tool(client(await serve(t, problem(500, "not_asked")), { journal }));
  await assert.rejects(again.pay({ amount: 1 }, { key: "invoice:1" }), { name: "AlreadyDone", outcome: "succeeded" });
  await assert.rejects(again.pay({ amount: 2 }, { key: "invoice:1" }), holdpoint.JournalError);
  assert.deepEqual(again.ran, []);
});

test("two that resume at once run it once", async (t) => {
  const journal = journalOf(t, PROPOSED, WAITS, REDEEMS), replayed = says(200, { ...REDEEMED, replayed: true });
  const both = [resume(await serve(t, replayed, OK), journal), resume(await serve(t, replayed, OK), journal)];
  const ends = await Promise.allSettled(both.map(({ left }) => left.resume()));
  assert.deepEqual(ends.map((end) => end.status).sort(), ["fulfilled", "rejected"]);
  assert.ok(ends.some((end) => end.reason instanceof holdpoint.OutcomeUnknown));
  assert.deepEqual(both.flatMap(({ ran }) => ran), [5]);
});

test("drop", async (t) => {
  const server = await serve(t, problem(409, "already_denied"));
  const { left, hp } = resume(server, journalOf(t, PROPOSED, WAITS));
  await left.drop();
  assert.deepEqual([server.lines(), hp.unfinished()], [["POST /v1/approvals/apr_1/cancel"], []]);
});

test("drop of what has begun meanwhile", async (t) => {
  for (const [lines, steps] of [
    [[WAITS], [followed(APPROVED), says(200, REDEEMED), OK]],
    [[WAITS, REDEEMS], [says(200, REDEEMED), OK]],
  ]) {
    const journal = journalOf(t, PROPOSED, ...lines), asked = await serve(t);
    const stale = resume(asked, journal);
    const hp = client(await serve(t, ...steps), { journal });
    const { ran } = tool(hp, { does: () => assert.rejects(stale.left.drop(), holdpoint.HoldpointError) });
    await hp.unfinished()[0].resume();
    assert.deepEqual([ran.length, asked.seen, stale.hp.unfinished()], [1, [], []]);
    await assert.rejects(stale.left.drop(), holdpoint.HoldpointError);
    const written = readFileSync(journal, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line).step);
    assert.deepEqual(written.slice(-3), ["begun", "ran", "over"]);
  }
});

test("drop of what is redeemed", async (t) => {
  const stopped = problem(423, "agent_stopped");
  for (const [name, steps, reported, drops] of [
    ["by this journal", [says(200, REDEEMED), OK], true, true],
    ["reported already", [says(200, REDEEMED), problem(409, "already_reported")], true, true],
    ["by another program", [problem(409, "token_used")], false, true],
    ["too late", [problem(410, "token_expired")], false, true],
    ["stopped, not redeemed", [stopped, says(200, { ...APPROVED, execution: "none" })], false, true],
    ["stopped, redeemed", [stopped, says(200, { ...APPROVED, execution: "redeemed" })], false, false],
  ]) {
    const server = await serve(t, ...steps), journal = journalOf(t, PROPOSED, WAITS);
    const { left, hp } = resume(server, journal);
    appendFileSync(journal, `\n${JSON.stringify({ call: "c", ...REDEEMS })}\n`);
    for (let i = 0; i < 2; i++) {
      if (drops) await left.drop();
      else await assert.rejects(left.drop(), holdpoint.HoldpointError);
    }
    assert.equal(server.seen.length, steps.length, name);
    assert.equal(server.seen.at(-1).body.includes('"failed"'), reported, name);
    assert.equal(hp.unfinished().length, drops ? 0 : 1, name);
  }
});

test("a journal that cannot be written", async (t) => {
  const server = await serve(t, says(200, ACCEPTED));
  assert.throws(() => client(server, { journal: "/nowhere/at/all" }), holdpoint.JournalError);
  const { pay, ran } = tool(client(server, { journal: "/dev/full" }));
  await assert.rejects(pay({ amount: 1 }), holdpoint.JournalError);
  assert.deepEqual([ran, server.seen], [[], []]);
});

// --- the same call again, without a key

function again(server, journal, more) {
  const hp = client(server, { journal, ...more });
  return { hp, ...tool(hp) };
}

test("the same call goes on with what was approved meanwhile", async (t) => {
  const server = await serve(t, says(200, APPROVED), says(200, REDEEMED), OK, says(202, WAITING), followed(DENIED));
  const { hp, pay, ran } = again(server, journalOf(t, PROPOSED, WAITS));
  assert.equal(await pay({ amount: 1 }), "paid");
  assert.deepEqual([ran, hp.unfinished()], [[1], []]);
  await assert.rejects(pay({ amount: 1 }), holdpoint.NotApproved); // the first is finished: this is another
  assert.deepEqual([server.lines()[0], server.lines()[3], ran], ["GET /v1/approvals/apr_1", "POST /v1/pre-tool-check", [1]]);
});

test("the same call goes on waiting", async (t) => {
  const told = [], server = await serve(t, says(200, PENDING), followed(APPROVED), says(200, REDEEMED), OK);
  const { pay } = again(server, journalOf(t, PROPOSED, WAITS), { onWait: (approval) => told.push(approval.id) });
  assert.equal(await pay({ amount: 1 }), "paid");
  assert.deepEqual(told, ["apr_1"]);
});

test("what a reviewer asks is told once", async (t) => {
  const asks = (text, at) => ({ ...PENDING, question: { text, at } });
  const first = asks("Which invoice?", "1"), same = asks("Which invoice?", "2"), third = asks("Why?", "3");
  for (const steps of [
    [followed(PENDING, first, first, PENDING, same), followed(same, third, APPROVED)],
    [says(200, {}), says(200, {}), says(200, first, { ETag: "1" }), says(200, first, { ETag: "2" }), says(304, "", { ETag: "2" }), says(200, same, { ETag: "3" }), says(200, third, { ETag: "4" }), says(200, APPROVED)],
  ]) {
    const told = [], server = await serve(t, says(202, WAITING), ...steps, says(200, REDEEMED), OK);
    const { pay } = tool(client(server, { onQuestion: async (approval) => { await undefined; told.push(approval.question); } }));
    assert.equal(await pay({ amount: 1 }), "paid");
    assert.deepEqual(told, ["Which invoice?", "Which invoice?", "Why?"]);
  }
});

test("what a question's function throws ends the wait", async (t) => {
  for (const error of [new Error("no answer"), new holdpoint.Unreachable("u"), new holdpoint.HoldpointError("h")]) {
    const server = await serve(t, says(202, WAITING), followed({ ...PENDING, question: { text: "Why?", at: "1" } }), says(500, {}));
    const { pay, ran } = tool(client(server, { onQuestion: () => Promise.reject(error) }));
    await assert.rejects(pay({ amount: 1 }), (thrown) => thrown === error);
    assert.deepEqual([ran, server.seen.length], [[], 2]);
  }
});

test("the line that says what is asked", async (t) => {
  const question = { text: "Which\u202e one?", at: "1" }, lines = [];
  t.mock.method(process.stderr, "write", (line) => lines.push(line));
  const server = await serve(t, says(202, WAITING), followed({ ...PENDING, question, links: { review: "http://h/approvals/apr_1" } }, APPROVED), says(200, REDEEMED), OK);
  await tool(client(server)).pay({ amount: 1 });
  t.mock.restoreAll();
  assert.deepEqual(lines, ["holdpoint: a reviewer of pay asks: “Which? one?” It waits for the answer: of the program, by inform, or of the agent's owner: http://h/approvals/apr_1\n"]);
});

test("another call is another", async (t) => {
  const server = await serve(t, says(200, ACCEPTED));
  const { hp, pay } = again(server, journalOf(t, PROPOSED, WAITS));
  await pay({ amount: 2 });
  assert.deepEqual([server.lines(), hp.unfinished().length], [["POST /v1/pre-tool-check"], 1]);
});

test("the same call that had begun is refused, that ran is reported", async (t) => {
  let server = await serve(t, OK, says(200, ACCEPTED));
  const { hp, pay, ran } = again(server, journalOf(t, PROPOSED, WAITS, REDEEMS, BEGUN));
  await assert.rejects(pay({ amount: 1 }), { name: "OutcomeUnknown", message: /settle it/ });
  assert.deepEqual([ran, server.seen], [[], []]);
  await hp.unfinished()[0].settle("failed");
  assert.equal(await pay({ amount: 1 }), "paid");

  server = await serve(t, OK);
  const done = again(server, journalOf(t, PROPOSED, WAITS, REDEEMS, BEGUN, { step: "ran", outcome: "succeeded", ms: 7 }));
  await assert.rejects(done.pay({ amount: 1 }), { name: "AlreadyDone", outcome: "succeeded" });
  assert.deepEqual([done.ran, server.lines(), done.hp.unfinished()], [[], ["POST /v1/executions"], []]);
});

test("a report that nobody takes any more ends the call", async (t) => {
  const left = [PROPOSED, WAITS, REDEEMS, BEGUN, { step: "ran", outcome: "succeeded", ms: 7 }];
  for (const refused of [problem(404, "not_found"), problem(409, "not_redeemed"), problem(403, "forbidden")]) {
    const { hp, pay, ran } = again(await serve(t, refused), journalOf(t, ...left));
    await assert.rejects(pay({ amount: 1 }), { name: "AlreadyDone", outcome: "succeeded" });
    assert.deepEqual([ran, hp.unfinished()], [[], []]);
  }
  const { hp, pay } = again(await serve(t, problem(401, "unauthenticated")), journalOf(t, ...left));
  await assert.rejects(pay({ amount: 1 }), holdpoint.Problem);
  assert.deepEqual(hp.unfinished().map((u) => u.state), ["ran"]); // it may be said later
});

test("what is judged otherwise now is another call", async (t) => {
  const server = await serve(t, says(200, ACCEPTED));
  const { pay } = tool(client(server, { journal: journalOf(t, PROPOSED) }), { route: "refuse" });
  await pay({ amount: 1 });
  assert.equal(JSON.parse(server.seen[0].body).recommended_route, "refuse");
  assert.notEqual(server.seen[0].headers["idempotency-key"], "c");
});

test("what ended without a no is proposed anew, a no is told", async (t) => {
  const never = { ...PENDING, status: "approved", execution: "none" }; // its time to run is over
  for (const ended of [says(200, { ...PENDING, status: "expired" }), says(200, { ...PENDING, status: "cancelled" }), says(200, never), problem(404, "not_found")]) {
    const server = await serve(t, ended, says(200, ACCEPTED));
    const { hp, pay, ran } = again(server, journalOf(t, PROPOSED, WAITS));
    assert.equal(await pay({ amount: 1 }), "paid");
    assert.deepEqual([ran, hp.unfinished()], [[1], []]);
    assert.notEqual(server.seen[1].headers["idempotency-key"], "c");
  }
  const { hp, pay, ran } = again(await serve(t, says(200, DENIED)), journalOf(t, PROPOSED, WAITS));
  await assert.rejects(pay({ amount: 1 }), holdpoint.NotApproved);
  assert.deepEqual([ran, hp.unfinished()], [[], []]);
});

test("two equal calls at once are two", async (t) => {
  const steps = {
    "GET /v1/approvals/apr_1": says(200, PENDING), "GET /v1/approvals/apr_1/events": followed(APPROVED), "POST /v1/pre-tool-check": says(200, ACCEPTED),
    "POST /v1/tokens/redeem": says(200, REDEEMED), "POST /v1/executions": OK,
  };
  const scripted = await serve(t, (response, request) => steps[`${request.method} ${request.url}`](response));
  const { hp, pay, ran } = again(scripted, journalOf(t, PROPOSED, WAITS));
  await Promise.all([pay({ amount: 1 }), pay({ amount: 1 })]);
  assert.deepEqual([ran, hp.unfinished()], [[1, 1], []]);
  assert.equal(scripted.lines().filter((line) => line === "POST /v1/pre-tool-check").length, 1);
});

test("what another process redeems stays its own", async (t) => {
  const journal = journalOf(t, PROPOSED, WAITS);
  const meanwhile = (response) => {
    appendFileSync(journal, `\n${JSON.stringify({ call: "c", ...REDEEMS })}\n`);
    problem(409, "token_used")(response);
  };
  const { hp, pay, ran } = again(await serve(t, says(200, APPROVED), meanwhile), journal);
  await assert.rejects(pay({ amount: 1 }), holdpoint.AlreadyDone);
  assert.deepEqual([ran, hp.unfinished().map((left) => left.state)], [[], ["redeeming"]]);
});

test("says what waits, once, on standard error", async (t) => {
  const requirements = [{ kind: "review", role: "finance", needed: 2, status: "waiting" }, { kind: "human", status: "queued" }];
  const waiting = { ...PENDING, tool_name: "p\u001bay", requirements, links: { review: "http://h/approvals/apr_1" }, resumption_token: "TOKEN" };
  const server = await serve(t, says(202, { ...WAITING, approval: waiting }), followed(APPROVED), says(200, REDEEMED), OK);
  const written = t.mock.method(process.stderr, "write", () => true);
  await tool(new holdpoint.Client({ url: server.url, key: "hp_test" })).pay({ amount: 1 });
  assert.deepEqual(written.mock.calls.map((call) => call.arguments[0]), ["holdpoint: p?ay waits for review by 2 × finance, then human: http://h/approvals/apr_1\n"]);
});

test("without a key", () => {
  const { HOLDPOINT_URL: url, HOLDPOINT_API_KEY: key } = process.env;
  delete process.env.HOLDPOINT_API_KEY;
  delete process.env.HOLDPOINT_URL;
  try {
    assert.throws(() => new holdpoint.Client(), { message: /^HOLDPOINT_URL is not set .*dev.json, as url/ });
    assert.throws(() => new holdpoint.Client({ url: "http://127.0.0.1:1" }), { message: /^HOLDPOINT_API_KEY is not set .*dev.json, as agent_key/ });
    assert.ok(new holdpoint.Client({ url: "http://127.0.0.1:1", key: "" }));
  } finally {
    if (url !== undefined) process.env.HOLDPOINT_URL = url;
    if (key !== undefined) process.env.HOLDPOINT_API_KEY = key;
  }
});

test("what is wrong with a proposal is told", async (t) => {
  const server = await serve(t, says(200, { tool_name: "pay", hard_blockers: ["schema_validation_failed"], validation_errors: [{ path: "$.tool_category", message: "The field is required." }] }));
  await assert.rejects(tool(client(server)).pay({ amount: 1 }), { name: "Refused", message: "pay was refused: schema_validation_failed ($.tool_category: The field is required.)" });
});

test("a wrong address or key", async () => {
  for (const url of ["127.0.0.1:8080", "localhost:8080", "http:/127.0.0.1:8080", "htp://127.0.0.1", "http://127.0.0.1:8o8o", "hp_secret", "https://h/?key=hp_secret"]) {
    assert.throws(() => new holdpoint.Client({ url, key: "hp_x" }), (error) => /HOLDPOINT_URL.*like http:..127.0.0.1:8080/.test(error.message) && !error.message.includes("hp_secret"), url);
  }
  for (const key of ["hp_se\ncret", "hp se", "hp_ü"]) {
    assert.throws(() => new holdpoint.Client({ url: "http://127.0.0.1:1", key }), (error) => /HOLDPOINT_API_KEY.*no API key/.test(error.message) && !error.message.includes(key), key);
  }
  const away = createServer().listen(0, "127.0.0.1");
  await once(away, "listening");
  const url = `http://127.0.0.1:${away.address().port}`;
  await new Promise((resolve) => away.close(resolve));
  await assert.rejects(new holdpoint.Client({ url: ` ${url}/x/ `, key: "hp_x\n" }).get("apr_1"), { message: `the server at ${url} cannot be reached: ECONNREFUSED` });
});

test("says that a call under a key of its own waits only while it does", async (t) => {
  for (const [now, steps, want] of [
    ["pending", [says(200, PENDING), followed(APPROVED)], ["pending"]],
    ["approved", [says(200, APPROVED)], []],
    ["unread", [says(500, {}), followed(APPROVED)], []],
  ]) {
    const server = await serve(t, says(202, WAITING), ...steps, says(200, REDEEMED), OK), told = [];
    assert.equal(await tool(client(server, { onWait: (approval) => told.push(approval.status) })).pay({ amount: 1 }, { key: "invoice:1" }), "paid", now);
    assert.deepEqual(told, want, now);
  }
});
