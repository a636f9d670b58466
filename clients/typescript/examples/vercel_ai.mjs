import { generateText, stepCountIs, tool } from "ai";
import { Client } from "holdpoint";
import { awaitDecisions, gated } from "holdpoint/vercel-ai";
import { z } from "zod";
import { model } from "./model.mjs"; // of any provider

const hp = new Client(); // HOLDPOINT_URL, HOLDPOINT_API_KEY

const tools = gated(hp, {
  send_payment: tool({
    description: "Pays an invoice",
    inputSchema: z.object({ amount: z.string(), to: z.string() }),
    execute: async ({ amount, to }) => `paid ${amount} to ${to}`,
  }),
}, { category: "write", authorizationState: "authenticated", riskDomain: "finance", route: "defer" });

const messages = [{ role: "user", content: "Pay the invoice of Paper & Pens." }];
for (;;) {
  const { response, text } = await generateText({ model, tools, messages, stopWhen: stepCountIs(5) });
  messages.push(...response.messages); // keep them: any process can go on with them
  const content = await awaitDecisions(tools, messages);
  if (content.length) messages.push({ role: "tool", content });
  else {
    console.log(text);
    break;
  }
}
