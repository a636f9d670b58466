import { tool } from "@langchain/core/tools";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { z } from "zod";
import { model } from "./model.mjs"; // of any provider
const sendPayment = tool(async ({ amount, to }) => `paid ${amount} to ${to}`, {
  name: "send_payment",
  description: "Pays an invoice",
  schema: z.object({ amount: z.string(), to: z.string() }),
});
const agent = createReactAgent({ llm: model, tools: [sendPayment] });
const result = await agent.invoke({ messages: [{ role: "user", content: "Pay the invoice of Paper & Pens." }] });
console.log(result.messages.at(-1).content);
