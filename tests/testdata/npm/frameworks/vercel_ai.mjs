// Agents of the Vercel AI SDK for the tests of its adapter.
import { generateText, stepCountIs, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { awaitDecisions, gated } from "holdpoint/vercel-ai";
import { z } from "zod";

/** A model that makes these calls, and then says what became of them. */
export const standIn = (...calls) => new MockLanguageModelV3({
  async doGenerate({ prompt }) {
    const results = prompt.flatMap(({ content }) => (Array.isArray(content) ? content : [])).filter((part) => part.type === "tool-result");
    const said = results.map(({ output }) => output.value ?? output.reason).join("; ");
    return {
      content: results.length
        ? [{ type: "text", text: said }]
        : calls.map(({ id, name, args }) => ({ type: "tool-call", toolCallId: id, toolName: name, input: JSON.stringify(args) })),
      finishReason: { unified: results.length ? "stop" : "tool-calls" }, usage: { inputTokens: {}, outputTokens: {} }, warnings: [],
    };
  },
});

const toolOf = (c) => tool({ inputSchema: z.object({ word: z.string(), n: z.number() }), execute: c.run });
const toolsOf = (c) => gated(c.client, Object.fromEntries(c.calls.map(({ name }) => [name, toolOf(c)])), c.how);

async function go(c, tools, messages) {
  const { response, text } = await generateText({ model: standIn(...c.calls), tools, messages, stopWhen: stepCountIs(3) });
  return text ? { said: text } : { parked: JSON.stringify([...messages, ...response.messages]) };
}

export const begin = (c) => go(c, toolsOf(c), [{ role: "user", content: "Go on." }]);

export async function resume(c, parked) {
  const messages = JSON.parse(parked), tools = toolsOf(c);
  const asked = messages.at(-1).content.filter((part) => part.type === "tool-approval-request");
  const content = c.forced
    ? asked.map(({ approvalId }) => ({ type: "tool-approval-response", approvalId, approved: true }))
    : await awaitDecisions(tools, messages, c.wait);
  return content ? go(c, tools, [...messages, { role: "tool", content }]) : { parked };
}
