// The adapters for agent frameworks, against a stand-in for the server. tests/frameworks_npm_test.go has the frameworks themselves.
import assert from "node:assert/strict";
import test from "node:test";
import { Client, Refused } from "../dist/index.js";
import * as adk from "../dist/google-adk.js";
import * as langchain from "../dist/langchain.js";
import * as openai from "../dist/openai-agents.js";
import * as vercel from "../dist/vercel-ai.js";
import { ACCEPTED, APPROVED, EDITED, hangsUp, message, PENDING, problem, REDEEMED, REFUSED, says, serve, streams, WAITING } from "./standin.mjs";

const OK = says(200, {});
const client = (server) => new Client({ url: server.url, key: "hp_test", firstPause: 5, onWait: null });
const call = { toolCall: { callId: "call_1" } };
const permits = (approval = APPROVED) => [says(202, WAITING), says(200, PENDING), streams([message(approval)]), says(200, REDEEMED)];
const keys = (server) => server.seen.map((request) => request.headers["idempotency-key"]);

/** A tool of the OpenAI Agents SDK, and what it ran with. */
function openaiTool(server, { how, ...options } = {}) {
  const ran = [];
  const execute = async (...args) => { ran.push(args); return "paid"; };
  return { ...openai.gated(client(server), { name: "pay", execute, ...options }, how), ran };
}

test("a tool gets what its framework gives it", async (t) => {
  const server = await serve(t, ...permits(), OK);
  const { execute, ran } = openaiTool(server);
  assert.equal(await execute({ amount: 1 }, "context", call), "paid");
  assert.deepEqual(ran, [[{ amount: 1 }, "context", call]]);
  assert.equal(JSON.parse(server.seen[4].body).outcome, "succeeded");
});

test("a call has a key of its own", async (t) => {
  const server = await serve(t, says(200, REFUSED));
  const { execute, needsApproval } = openaiTool(server);
  const other = (callId) => ({ toolCall: { callId } });
  assert.equal(await needsApproval(undefined, { amount: 1, to: undefined }, "call_1"), false);
  for (const [args, details] of [[{ amount: 1 }, call], [{ amount: 2 }, call], [{ amount: 1 }, other("call_2")]]) await execute(args, undefined, details);
  const [asked, same, ...others] = keys(server);
  assert.equal(asked, same);
  assert.equal(new Set([same, ...others]).size, 3);
  const own = openaiTool(server, { how: { key: (id) => `chat 7:${id}`.replace(" ", "-") } });
  await own.execute({}, undefined, call);
  assert.equal(keys(server).at(-1), "chat-7:call_1");
});

test("what waits is asked for, and what has no answer is not", async (t) => {
  const waits = openaiTool(await serve(t, says(202, WAITING), says(200, PENDING)));
  assert.equal(await waits.needsApproval(undefined, { amount: 1 }, "call_1"), true);
  for (const step of [says(200, ACCEPTED), hangsUp, problem(423, "kill_switch")]) {
    const { needsApproval } = openaiTool(await serve(t, step));
    assert.equal(await needsApproval(undefined, { amount: 1 }, "call_1"), false);
  }
});

test("a question about what waits is told once, by whoever looks or waits", async (t) => {
  const asked = { ...PENDING, question: { text: "Which?", at: "1" } }, told = [];
  const server = await serve(t, says(202, WAITING), says(200, asked), says(202, WAITING), says(200, asked), streams([message(asked), message(APPROVED)]), says(200, APPROVED));
  const hp = new Client({ url: server.url, key: "hp_test", firstPause: 5, onWait: null, onQuestion: ({ question }) => told.push(question) });
  const { needsApproval } = openai.gated(hp, { name: "pay", execute: async () => "paid" });
  for (let i = 0; i < 2; i++) assert.equal(await needsApproval(undefined, { amount: 1 }, "call_1"), true);
  await langchain.awaitDecisions(hp, [{ id: "i", value: { holdpoint: "apr_1" } }]).catch(() => {});
  assert.deepEqual(told, ["Which?"]);
});

test("why a call did not run is its result", async (t) => {
  const { execute, ran } = openaiTool(await serve(t, says(200, REFUSED)));
  assert.equal(await execute({ amount: 1 }, undefined, call), "pay was refused: runtime_refusal");
  const down = openaiTool(await serve(t, problem(423, "kill_switch")));
  assert.match(await down.execute({ amount: 1 }, undefined, call), /^pay did not run: kill_switch/);
  const structured = openaiTool(await serve(t, says(200, REFUSED)), { outputSchema: {} });
  await assert.rejects(structured.execute({ amount: 1 }, undefined, call), openai.NotRun);
  assert.deepEqual([ran, down.ran, structured.ran], [[], [], []]);
});

test("an edit passes the schema", async (t) => {
  const parse = (args) => { if (args.amount > 1) throw new TypeError("too much"); return args; };
  const standard = { "~standard": { validate: (args) => (args.amount > 1 ? { issues: [{ message: "too much" }] } : { value: args }) } };
  for (const parameters of [{ parse }, standard]) {
    const { execute, ran } = openaiTool(await serve(t, ...permits(EDITED), OK), { parameters });
    assert.match(await execute({ amount: 1 }, undefined, call), /^pay did not run: a reviewer changed/);
    assert.deepEqual(ran, []);
  }
});

test("a report that is lost takes nothing from the result", async (t) => {
  const lost = problem(409, "already_reported");
  const { execute } = openaiTool(await serve(t, ...permits(), lost));
  assert.equal(await execute({ amount: 1 }, undefined, call), "paid");
  const fails = openaiTool(await serve(t, ...permits(), lost), { execute() { throw new Error("no money"); } });
  await assert.rejects(fails.execute({ amount: 1 }, undefined, call), { message: "no money" });
});

test("a tool's own refusal is not taken for that of its call", async (t) => {
  const { execute } = openaiTool(await serve(t, ...permits(), OK), { execute() { throw new Refused("inner", undefined); } });
  await assert.rejects(execute({ amount: 1 }, undefined, call), Refused);
});

test("what cannot be gated is refused", async (t) => {
  const hp = client(await serve(t, OK));
  assert.throws(() => openai.gated(hp, { name: "pay", execute() {}, needsApproval: true }), TypeError);
  assert.throws(() => vercel.gated(hp, { pay: { execute() {}, needsApproval: true } }), TypeError);
  assert.throws(() => vercel.gated(hp, { pay: {} }), TypeError);
  const tool = langchain.gated(hp, { name: "pay", func() {} });
  assert.throws(() => langchain.gated(hp, tool), TypeError);
  assert.throws(() => adk.gated(hp, { name: "pay", async runAsync() {}, requireConfirmation: true }), TypeError);
  const kit = adk.gated(hp, { name: "pay", async runAsync() {} });
  assert.throws(() => adk.gated(hp, kit), TypeError);
});

test("a tool of the Vercel AI SDK that yields", async (t) => {
  const server = await serve(t, ...permits(), OK);
  const { pay } = vercel.gated(client(server), { pay: { async *execute() { yield "paying"; yield "paid"; } } });
  assert.equal(await pay.execute({ amount: 1 }, { toolCallId: "call_1", messages: [] }), "paid");
  const asked = [{ role: "assistant", content: [{ type: "tool-approval-request", approvalId: "a", toolCallId: "call_1" }] }];
  assert.equal(await pay.needsApproval({ amount: 1 }, { toolCallId: "call_1", messages: asked }), true);
  assert.equal(server.seen.length, 5);
});

test("a tool of LangChain that takes a text, and yields", async (t) => {
  const edited = { ...APPROVED, edited: { arguments: { input: "less" } } };
  const server = await serve(t, ...permits(edited), OK);
  const schema = { parse: ({ input }) => input };
  const tool = { name: "pay", schema, async *func(input) { yield "paying"; return `paid ${input}`; } };
  assert.equal(langchain.gated(client(server), tool), tool);
  assert.equal(await tool.func("much", undefined, { toolCall: { id: "call_1" } }), "paid less");
  assert.deepEqual(JSON.parse(server.seen[0].body).proposed_arguments, { input: "much" });
});

test("a tool of LangChain that a program calls, and a model", async (t) => {
  const tool = langchain.gated(client(await serve(t, says(200, REFUSED))), { name: "pay", func() {} });
  await assert.rejects(tool.func({ amount: 1 }), langchain.NotRun);
  tool.responseFormat = "content_and_artifact";
  assert.deepEqual(await tool.func({ amount: 1 }, undefined, { toolCall: { id: "call_1" } }), ["pay was refused: runtime_refusal", undefined]);
});

test("LangGraph is interrupted until people have decided", async (t) => {
  const server = await serve(t, says(202, WAITING), says(200, PENDING), says(202, WAITING), says(200, PENDING), says(202, WAITING), says(200, APPROVED), ...permits(), OK);
  const values = [];
  const tool = langchain.gated(client(server), { name: "pay", func: () => "paid" }, { interrupt: (value) => values.push(value) });
  const config = (thread) => ({ toolCall: { id: "call_1" }, configurable: { thread_id: thread } });
  assert.equal(await tool.func({ amount: 1 }, undefined, config("a")), "paid");
  assert.deepEqual(values, Array(2).fill({ holdpoint: "apr_1", tool: "pay", review: "" }));
  const before = keys(server)[0];
  await tool.func({ amount: 1 }, undefined, config("b"));
  assert.notEqual(keys(server).findLast(Boolean), before);
});

test("a tool of Google's ADK asks for a confirmation, which permits nothing", async (t) => {
  const server = await serve(t, says(202, WAITING), says(200, PENDING), ...permits(), OK, says(200, REFUSED));
  const ran = [];
  const tool = adk.gated(client(server), { name: "pay", async runAsync({ args }) { ran.push(args); return "paid"; } });
  const asked = [];
  const context = (toolConfirmation) => ({ sessionId: "s", functionCallId: "call_1", toolConfirmation, actions: {}, requestConfirmation: (what) => asked.push(what) });
  const first = context();
  assert.match((await tool.runAsync({ args: { amount: 1 }, toolContext: first })).error, /^pay waits for people/);
  assert.equal(first.actions.skipSummarization, true);
  assert.deepEqual(asked.map(({ payload }) => payload), [{ holdpoint: "apr_1" }]);
  assert.match((await tool.runAsync({ args: { amount: 1 }, toolContext: context({ confirmed: false }) })).error, /declined/);
  assert.equal(server.seen.length, 2);
  assert.equal(await tool.runAsync({ args: { amount: 1 }, toolContext: context({ confirmed: true }) }), "paid");
  assert.match((await tool.runAsync({ args: { amount: 2 }, toolContext: context({ confirmed: true }) })).error, /^pay was refused/);
  assert.deepEqual(ran, [{ amount: 1 }]);
  assert.equal(await tool.checkRequireConfirmation(), true);
});

test("what a session of Google's ADK goes on with", async (t) => {
  const server = await serve(t, says(200, PENDING), says(200, APPROVED), says(200, APPROVED));
  const asks = (id, payload) => ({ content: { parts: [{ functionCall: { id, name: "adk_request_confirmation", args: { toolConfirmation: { payload } } } }] } });
  const events = [{}, asks("a", { holdpoint: "apr_0" }), { content: { parts: [{ text: "x" }, { functionResponse: { id: "a" } }] } }, asks("b", { holdpoint: "apr_1" }), asks("c", { other: 1 }), asks("d")];
  assert.equal(await adk.awaitDecisions(client(server), events, { timeoutMs: 0 }), undefined);
  const message = { role: "user", parts: [{ functionResponse: { id: "b", name: "adk_request_confirmation", response: { confirmed: true } } }] };
  assert.deepEqual(await adk.awaitDecisions(client(server), events, { timeoutMs: 0 }), message);
  assert.equal(await adk.awaitDecisions(client(server), [events[4]]), undefined);
});
