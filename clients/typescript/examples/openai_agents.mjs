import { Agent, run, RunState, tool } from "@openai/agents";
import { Client } from "holdpoint";
import { awaitDecisions, gated } from "holdpoint/openai-agents";
import { z } from "zod";
import { model } from "./model.mjs"; // of any provider

const hp = new Client(); // HOLDPOINT_URL, HOLDPOINT_API_KEY

const sendPayment = tool(gated(hp, {
  name: "send_payment",
  description: "Pays an invoice",
  parameters: z.object({ amount: z.string(), to: z.string() }),
  execute: async ({ amount, to }) => `paid ${amount} to ${to}`,
}, { category: "write", authorizationState: "authenticated", riskDomain: "finance", route: "defer" }));

const agent = new Agent({ name: "Accounts", model, tools: [sendPayment] });
let result = await run(agent, "Pay the invoice of Paper & Pens.");

while (result.interruptions.length) {
  const text = result.state.toString(); // keep it: any process can go on with it
  const state = await RunState.fromString(agent, text);
  await awaitDecisions(state);
  result = await run(agent, state);
}
console.log(result.finalOutput);
