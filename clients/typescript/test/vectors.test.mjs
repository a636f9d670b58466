// The vectors that the clients of all languages share (clients/testdata).
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { canonical, Decision, digest, InvalidToken, InvalidWebhook, Problem, verifyToken, verifyWebhook } from "../dist/index.js";
import { verdictOf } from "../dist/client.js";
import { problemOf } from "../dist/errors.js";
import { goesOnAs, Journal } from "../dist/journal.js";
import { messages } from "../dist/sse.js";
import { identity, redemptionOf } from "../dist/wire.js";

const vectors = (name) => JSON.parse(readFileSync(new URL("../../testdata/" + name, import.meta.url), "utf8"));
const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());

test("digests", () => {
  for (const c of vectors("digests.json").cases) {
    assert.equal(canonical(c.arguments), c.canonical, c.name);
    assert.equal(digest(c.tool, c.arguments), c.digest, c.name);
  }
  for (const value of [NaN, Infinity, -0, "\0", "\ud800", "\udc00a", { "\ud800": 1 }, undefined, 1n]) {
    assert.throws(() => digest("t", { a: value }), TypeError);
  }
});

test("streams", async () => {
  for (const c of vectors("streams.json").cases) {
    const chunks = c.chunks.map((chunk) => Buffer.from(chunk));
    for (const pieces of [chunks, [...Buffer.concat(chunks)].map((byte) => Buffer.from([byte]))]) {
      const got = [];
      for await (const message of messages((async function* () { yield* pieces; })())) got.push(message);
      assert.deepEqual(got, c.messages, c.name);
    }
  }
});

test("problems", () => {
  const { now, cases } = vectors("problems.json");
  for (const c of cases) {
    const problem = problemOf(c.status, new Headers(c.headers), c.body, now * 1000);
    assert.equal(problem.status, c.status);
    for (const [name, want] of Object.entries(c.want)) assert.deepEqual(problem[camel(name)], want, `${c.name}: ${name}`);
  }
});

test("redemptions", () => {
  const { answers, problems } = vectors("redeem.json");
  for (const c of answers) assert.equal(redemptionOf(c.body) !== undefined, c.verdict === "run", c.name);
  for (const c of problems) assert.equal(verdictOf(new Problem(c.status, { code: c.code })), c.verdict, c.name);
});

test("decisions", () => {
  for (const c of vectors("decisions.json").cases) assert.equal(new Decision(c.decision).accepted, c.accepted, c.name);
});

test("journals", () => {
  const dir = mkdtempSync(join(tmpdir(), "holdpoint-"));
  try {
    for (const [i, c] of vectors("journals.json").cases.entries()) {
      const path = join(dir, String(i));
      writeFileSync(path, c.text);
      const journal = new Journal(path);
      const got = Object.fromEntries(journal.all().map((e) => [e.call, e]));
      assert.deepEqual(Object.keys(got), Object.keys(c.want), c.name);
      for (const [call, want] of Object.entries(c.want)) {
        for (const [name, value] of Object.entries(want)) assert.equal(got[call][camel(name)], value, `${c.name}: ${name}`);
      }
      journal.close();
    }
  } finally {
    rmSync(dir, { recursive: true });
  }
});

test("which unfinished call a call goes on as", (t) => {
  const dir = mkdtempSync(join(tmpdir(), "holdpoint-"));
  t.after(() => rmSync(dir, { recursive: true }));
  for (const [i, c] of vectors("goes_on.json").cases.entries()) {
    const path = join(dir, String(i));
    writeFileSync(path, c.text);
    const journal = new Journal(path), sought = identity(c.body, c.headers);
    const found = journal.unfinished().find((e) => !c.live.includes(e.call) && goesOnAs(e, sought));
    assert.equal(found?.call ?? "", c.want, c.name);
    journal.close();
  }
});

test("tokens", () => {
  const file = vectors("tokens.json");
  const check = (c) => {
    const token = typeof c.token === "string" ? c.token : file.good[0].token + "A".repeat(c.token.good_and_letters);
    return verifyToken(c.jwks_text ?? file.jwks_text, token, { ...(c.expect ?? file.expect), now: file.now });
  };
  for (const c of file.good) {
    const claims = check(c);
    for (const [name, want] of Object.entries(c.claims)) assert.deepEqual(claims[camel(name)], want, `${c.name}: ${name}`);
  }
  for (const c of file.bad) {
    assert.throws(() => check(c), (error) => (error instanceof InvalidToken || error instanceof TypeError) && !(c.token.length > 10 && error.message.includes(c.token)), c.name);
  }
});

test("webhooks", () => {
  const file = vectors("webhooks.json");
  for (const c of file.good) {
    for (const body of [c.body, new TextEncoder().encode(c.body)]) {
      for (const headers of [c.headers, new Headers(c.headers), Object.fromEntries(Object.entries(c.headers).map(([name, value]) => [name.toUpperCase(), value]))]) {
        const said = verifyWebhook(c.secret ?? file.secret, headers, body, file.now);
        for (const [name, want] of Object.entries(c.want)) assert.deepEqual(said[camel(name)], want, `${c.name}: ${name}`);
        assert.equal(said.id, c.headers["webhook-id"]);
      }
    }
  }
  for (const c of file.bad) {
    assert.throws(() => verifyWebhook(c.secret ?? file.secret, c.headers, new TextEncoder().encode(c.body), file.now), InvalidWebhook, c.name);
  }
  const [plain] = file.good;
  assert.throws(() => verifyWebhook(file.secret, { ...plain.headers, "Webhook-Id": "ntf_2" }, plain.body, file.now), InvalidWebhook);
  assert.throws(() => verifyWebhook(file.secret, plain.headers, plain.body), InvalidWebhook); // of another time
});
