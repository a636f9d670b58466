// Agents of LangGraph.js for the tests of its adapter.
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { Command, interrupt, MemorySaver } from "@langchain/langgraph";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { deserialize, serialize } from "node:v8";
import { awaitDecisions, gated } from "holdpoint/langchain";
import { z } from "zod";

/** A model that makes these calls, and then says what became of them. */
class StandIn extends BaseChatModel {
  constructor(calls) {
    super({});
    this.calls = calls;
  }
  _llmType() {
    return "stand-in";
  }
  bindTools() {
    return this;
  }
  async _generate(messages) {
    const results = messages.filter((message) => message.getType() === "tool");
    const message = results.length
      ? new AIMessage(results.map(({ content }) => content).join("; "))
      : new AIMessage({ content: "", tool_calls: this.calls.map(({ id, name, args }) => ({ type: "tool_call", id, name, args })) });
    return { generations: [{ text: message.content, message }] };
  }
}
export const standIn = (...calls) => new StandIn(calls);

function graphOf(c, saved) {
  const checkpointer = Object.assign(new MemorySaver(), saved && deserialize(Buffer.from(saved, "base64")));
  const toolOf = (name) => tool(c.run, { name, schema: z.object({ word: z.string(), n: z.number() }) });
  const tools = c.calls.map(({ name }) => gated(c.client, toolOf(name), { interrupt, ...c.how }));
  const graph = createReactAgent({ llm: standIn(...c.calls), tools, checkpointer, version: "v2" });
  return async (input) => {
    const result = await graph.invoke(input, { configurable: { thread_id: c.calls[0].id } });
    if (!result.__interrupt__?.length) return { said: result.messages.at(-1).content };
    const { storage, writes } = checkpointer;
    return { parked: JSON.stringify({ interrupts: result.__interrupt__, saved: serialize({ storage, writes }).toString("base64") }) };
  };
}

export const begin = (c) => graphOf(c)({ messages: [{ role: "user", content: "Go on." }] });

export async function resume(c, parked) {
  const { interrupts, saved } = JSON.parse(parked);
  const resume = c.forced ? "approved" : await awaitDecisions(c.client, interrupts, c.wait);
  return resume ? graphOf(c, saved)(new Command({ resume })) : { parked };
}
