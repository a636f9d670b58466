import { Agent, run, tool } from "@openai/agents";
import { z } from "zod";
import { model } from "./model.mjs"; // of any provider
const sendPayment = tool({
  name: "send_payment",
  description: "Pays an invoice",
  parameters: z.object({ amount: z.string(), to: z.string() }),
  execute: async ({ amount, to }) => `paid ${amount} to ${to}`,
});
const agent = new Agent({ name: "Accounts", model, tools: [sendPayment] });
const result = await run(agent, "Pay the invoice of Paper & Pens.");
console.log(result.finalOutput);
