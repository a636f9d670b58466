import { tool } from "@langchain/core/tools";
import { Command, interrupt, MemorySaver } from "@langchain/langgraph";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { Client } from "holdpoint";
import { awaitDecisions, gated } from "holdpoint/langchain";
import { z } from "zod";
import { model } from "./model.mjs"; // of any provider

const hp = new Client(); // HOLDPOINT_URL, HOLDPOINT_API_KEY

const sendPayment = gated(hp, tool(async ({ amount, to }) => `paid ${amount} to ${to}`, {
  name: "send_payment",
  description: "Pays an invoice",
  schema: z.object({ amount: z.string(), to: z.string() }),
}), { interrupt, category: "write", authorizationState: "authenticated", riskDomain: "finance", route: "defer" });

const checkpointer = new MemorySaver(); // or one on a database: any process can go on with a thread
const agent = createReactAgent({ llm: model, tools: [sendPayment], checkpointer, version: "v2" });
const thread = { configurable: { thread_id: "invoice 42" } };
let result = await agent.invoke({ messages: [{ role: "user", content: "Pay the invoice of Paper & Pens." }] }, thread);

while (result.__interrupt__) {
  const resume = await awaitDecisions(hp, result.__interrupt__);
  result = await agent.invoke(new Command({ resume }), thread);
}
console.log(result.messages.at(-1).content);
