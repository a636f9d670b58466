// Agents of Google's Agent Development Kit for the tests of its adapter.
import { BaseLlm, FunctionTool, InMemorySessionService, LlmAgent, LogLevel, Runner, setLogLevel } from "@google/adk";
import { awaitDecisions, gated } from "holdpoint/google-adk";
import { z } from "zod";

setLogLevel(LogLevel.ERROR);

/** A model that makes these calls, and then says what became of them. */
class StandIn extends BaseLlm {
  constructor(calls) {
    super({ model: "stand-in" });
    this.calls = calls;
  }
  async *generateContentAsync({ contents }) {
    const results = new Map(contents.flatMap(({ parts }) => parts).flatMap(({ functionResponse: r }) => (r ? [[r.id, r.response]] : [])));
    const parts = results.size
      ? [{ text: [...results.values()].map(({ result, error }) => result ?? error).join("; ") }]
      : this.calls.map(({ id, name, args }) => ({ functionCall: { id, name, args } }));
    yield { content: { role: "model", parts } };
  }
}
export const standIn = (...calls) => new StandIn(calls);

const key = (c) => ({ appName: "tests", userId: "u", sessionId: c.calls[0].id });

async function go(c, newMessage, events = []) {
  const tools = c.calls.map(({ name }) => gated(c.client, new FunctionTool({
    name, description: "A tool of the test.", parameters: z.object({ word: z.string(), n: z.number() }), execute: c.run,
  }), c.how));
  const sessionService = new InMemorySessionService();
  const session = await sessionService.createSession(key(c));
  for (const event of events) await sessionService.appendEvent({ session, event });
  const agent = new LlmAgent({ name: "agent", model: standIn(...c.calls), tools });
  const runner = new Runner({ appName: "tests", agent, sessionService });
  let said = "";
  for await (const { content, errorMessage } of runner.runAsync({ ...key(c), newMessage })) {
    if (errorMessage) throw new Error(errorMessage);
    said += content?.parts?.map(({ text }) => text ?? "").join("") ?? "";
  }
  return said ? { said } : { parked: JSON.stringify((await sessionService.getSession(key(c))).events) };
}

export const begin = (c) => go(c, { role: "user", parts: [{ text: "Go on." }] });

export async function resume(c, parked) {
  const events = JSON.parse(parked);
  const asked = events.flatMap(({ content }) => content?.parts ?? []).flatMap(({ functionCall }) => (functionCall?.name === "adk_request_confirmation" ? [functionCall] : []));
  const message = c.forced
    ? { role: "user", parts: asked.map(({ id, name }) => ({ functionResponse: { id, name, response: { confirmed: true } } })) }
    : await awaitDecisions(c.client, events, c.wait);
  return message ? go(c, message, events) : { parked };
}
