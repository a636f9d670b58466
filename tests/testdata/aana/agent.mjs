// A program whose tools are gated by AANA's own TypeScript SDK, unmodified, with
// Holdpoint's address and key: as agent.py beside it.
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { Client, Problem } from "../../../clients/typescript/dist/index.js";

const { AanaClient, buildPrecheckFromToolCall, shouldExecuteTool } = await import(pathToFileURL(process.env.AANA));
// What docs/seeds.md shows.
const client = new AanaClient({ baseUrl: process.env.HOLDPOINT_URL, token: process.env.HOLDPOINT_API_KEY });
const key = process.env.HOLDPOINT_API_KEY;
const runs = [];

async function goOn(hp, { id }, name, args, run) {
  const approval = await hp.wait(id, { timeoutMs: 60_000 });
  if (approval.status !== "approved") return { error: approval.status };
  const approved = approval.edited ?? args;
  try {
    await hp.redeem(approval.token, name, approved);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return { error: error.code };
  }
  run(approved);
  await hp.report(id, "succeeded");
  return {};
}

async function call(order) {
  const url = order.url ?? process.env.HOLDPOINT_URL;
  const asked = order.url || order.shadow ? new AanaClient({ baseUrl: url, token: key, shadowMode: order.shadow ?? false }) : client;
  const run = (args) => {
    runs.push(args);
    appendFileSync(process.env.RUNS, JSON.stringify({ arguments: args }) + "\n");
    if (order.dies) process.kill(process.pid, "SIGKILL");
  };
  try {
    if (order.ask) return { said: await asked[order.ask](...(order.with ?? [])) };
    const event = buildPrecheckFromToolCall({ toolName: order.tool, proposedArguments: order.arguments, metadata: order.metadata });
    const answer = await asked.toolPrecheck(event);
    if (shouldExecuteTool(answer)) {
      run(order.arguments);
      return {};
    }
    if (answer.approval?.status !== "pending") return { error: "blocked" };
    process.stdout.write(JSON.stringify({ waits: answer.approval.id }) + "\n");
    return await goOn(new Client({ url, key }), answer.approval, order.tool, order.arguments, run);
  } catch (error) {
    return { error: order.ask ? String(error.message) : "blocked" };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify({ ...(await call(JSON.parse(line))), runs }) + "\n");
}
