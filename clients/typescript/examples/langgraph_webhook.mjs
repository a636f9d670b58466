import { tool } from "@langchain/core/tools";
import { Command, interrupt, MemorySaver } from "@langchain/langgraph";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";
import { Client, InvalidWebhook, verifyWebhook } from "holdpoint";
import { awaitDecisions, gated } from "holdpoint/langchain";
import { z } from "zod";
import { model } from "./model.mjs"; // of any provider

const hp = new Client(); // HOLDPOINT_URL, HOLDPOINT_API_KEY

const sendPayment = gated(hp, tool(async ({ amount, to }) => `paid ${amount} to ${to}`, {
  name: "send_payment",
  description: "Pays an invoice",
  schema: z.object({ amount: z.string(), to: z.string() }),
}), { interrupt, category: "write", authorizationState: "authenticated", riskDomain: "finance", route: "defer" });

const agent = createReactAgent({ llm: model, tools: [sendPayment], checkpointer: new MemorySaver(), version: "v2" });
const threads = new Map(); // of approvals; keep it where the checkpointer keeps the threads

async function goOn(thread_id, input) {
  const result = await agent.invoke(input, { configurable: { thread_id } });
  if (!result.__interrupt__) return console.log(result.messages.at(-1).content);
  for (const { value } of result.__interrupt__) {
    threads.set(value.holdpoint, thread_id);
    await decided(value.holdpoint); // the webhook may have come before
  }
}

async function decided(approvalId) {
  const thread_id = threads.get(approvalId);
  if (!thread_id) return; // it waits for nothing, or went on already
  const { tasks } = await agent.getState({ configurable: { thread_id } });
  const resume = await awaitDecisions(hp, tasks.flatMap(({ interrupts }) => interrupts), { timeoutMs: 0 });
  if (resume && threads.delete(approvalId)) await goOn(thread_id, new Command({ resume }));
}

createServer(async (request, response) => {
  try {
    await decided(verifyWebhook(process.env.HOLDPOINT_WEBHOOK_SECRET, request.headers, await buffer(request)).approvalId);
    response.writeHead(204).end();
  } catch (error) { // Holdpoint sends it again
    response.writeHead(error instanceof InvalidWebhook ? 401 : 500).end();
  }
}).listen(Number(process.env.PORT ?? 8090), "127.0.0.1", () => goOn("invoice 42", { messages: [{ role: "user", content: "Pay the invoice of Paper & Pens." }] }));
