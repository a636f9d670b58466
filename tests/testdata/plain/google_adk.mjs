import { FunctionTool, InMemorySessionService, LlmAgent, Runner, stringifyContent } from "@google/adk";
import { z } from "zod";
import { model } from "./model.mjs"; // of any provider
const sendPayment = new FunctionTool({
  name: "send_payment",
  description: "Pays an invoice",
  parameters: z.object({ amount: z.string(), to: z.string() }),
  execute: async ({ amount, to }) => `paid ${amount} to ${to}`,
});
const agent = new LlmAgent({ name: "accounts", model, tools: [sendPayment] });
const sessionService = new InMemorySessionService(); // or one on a database: any process can go on with a session
const runner = new Runner({ appName: "accounts", agent, sessionService });
const session = { appName: "accounts", userId: "ada", sessionId: "invoice 42" };
await sessionService.createSession(session);
const newMessage = { role: "user", parts: [{ text: "Pay the invoice of Paper & Pens." }] };
for await (const event of runner.runAsync({ ...session, newMessage })) {
  const text = stringifyContent(event);
  if (text) console.log(text);
}
