import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";
import { model } from "./model.mjs"; // of any provider
const tools = {
  send_payment: tool({
    description: "Pays an invoice",
    inputSchema: z.object({ amount: z.string(), to: z.string() }),
    execute: async ({ amount, to }) => `paid ${amount} to ${to}`,
  }),
};
const messages = [{ role: "user", content: "Pay the invoice of Paper & Pens." }];
const { text } = await generateText({ model, tools, messages, stopWhen: stepCountIs(5) });
console.log(text);
