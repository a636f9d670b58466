import { FunctionTool, InMemorySessionService, LlmAgent, Runner, stringifyContent } from "@google/adk";
import { Client } from "holdpoint";
import { awaitDecisions, gated } from "holdpoint/google-adk";
import { z } from "zod";
import { model } from "./model.mjs"; // of any provider

const hp = new Client(); // HOLDPOINT_URL, HOLDPOINT_API_KEY

const sendPayment = gated(hp, new FunctionTool({
  name: "send_payment",
  description: "Pays an invoice",
  parameters: z.object({ amount: z.string(), to: z.string() }),
  execute: async ({ amount, to }) => `paid ${amount} to ${to}`,
}), { category: "write", authorizationState: "authenticated", riskDomain: "finance", route: "defer" });

const agent = new LlmAgent({ name: "accounts", model, tools: [sendPayment] });
const sessionService = new InMemorySessionService(); // or one on a database: any process can go on with a session
const runner = new Runner({ appName: "accounts", agent, sessionService });
const session = { appName: "accounts", userId: "ada", sessionId: "invoice 42" };
await sessionService.createSession(session);

let newMessage = { role: "user", parts: [{ text: "Pay the invoice of Paper & Pens." }] };
while (newMessage) {
  for await (const event of runner.runAsync({ ...session, newMessage })) {
    const text = stringifyContent(event);
    if (text) console.log(text);
  }
  newMessage = await awaitDecisions(hp, (await sessionService.getSession(session)).events);
}
