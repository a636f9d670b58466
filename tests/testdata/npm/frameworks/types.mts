// What the adapters promise to TypeScript: this compiles.
import { FunctionTool, InMemorySessionService, LlmAgent, Runner } from "@google/adk";
import { tool as langchainTool } from "@langchain/core/tools";
import { Command, INTERRUPT, interrupt, isInterrupted, MemorySaver } from "@langchain/langgraph";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { Agent, run, RunState, tool as openaiTool } from "@openai/agents";
import { generateText, tool as aiTool, type LanguageModel, type ModelMessage } from "ai";
import { Client } from "holdpoint";
import * as adk from "holdpoint/google-adk";
import * as langchain from "holdpoint/langchain";
import * as openai from "holdpoint/openai-agents";
import * as vercel from "holdpoint/vercel-ai";
import { z } from "zod";

const hp = new Client();
const schema = z.object({ amount: z.string() });

const agent = new Agent({ name: "a", tools: [openaiTool(openai.gated(hp, {
  name: "pay", description: "", parameters: schema, execute: async ({ amount }) => amount,
}, { category: "write" }))] });
export async function onOpenAI(text: string) {
  const state = await RunState.fromString(agent, text);
  if (await openai.awaitDecisions(state, { timeoutMs: 0 })) return (await run(agent, state)).finalOutput;
}

export async function onVercel(model: LanguageModel, messages: ModelMessage[]) {
  const tools = vercel.gated(hp, { pay: aiTool({ inputSchema: schema, execute: async ({ amount }) => amount.length }) }, { category: "write" });
  const { response, toolResults } = await generateText({ model, tools, messages });
  const paid: number[] = toolResults.map((result) => (result.dynamic ? 0 : result.output));
  const content = await vercel.awaitDecisions(tools, messages);
  return { paid, messages: [...messages, ...response.messages, { role: "tool", content }] satisfies ModelMessage[] };
}

export async function onADK(model: string, key: { appName: string; userId: string; sessionId: string }) {
  const pay = adk.gated(hp, new FunctionTool({ name: "pay", description: "", parameters: schema, execute: async ({ amount }) => amount }), { category: "write" });
  const sessionService = new InMemorySessionService();
  const runner = new Runner({ appName: key.appName, agent: new LlmAgent({ name: "a", model, tools: [pay] }), sessionService });
  const session = await sessionService.getSession(key);
  const newMessage = session && (await adk.awaitDecisions(hp, session.events, { timeoutMs: 0 }));
  if (newMessage) for await (const event of runner.runAsync({ ...key, newMessage })) void event.content;
}

export async function onLangGraph(llm: Parameters<typeof createReactAgent>[0]["llm"]) {
  const pay = langchain.gated(hp, langchainTool(async ({ amount }) => amount.length, { name: "pay", schema }), { interrupt, category: "write" });
  const result = await createReactAgent({ llm, tools: [pay], checkpointer: new MemorySaver() }).invoke({ messages: [] });
  if (isInterrupted(result)) return new Command({ resume: await langchain.awaitDecisions(hp, result[INTERRUPT]) });
}
