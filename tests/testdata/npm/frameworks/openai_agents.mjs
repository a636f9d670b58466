// Agents of the OpenAI Agents SDK for the tests of its adapter.
import { Agent, Runner, RunState, setTracingDisabled, tool, Usage } from "@openai/agents";
import { awaitDecisions, gated } from "holdpoint/openai-agents";
import { z } from "zod";

setTracingDisabled(true);

/** A model that makes these calls, and then says what became of them. */
export const standIn = (...calls) => ({
  async getResponse({ input }) {
    const results = (Array.isArray(input) ? input : []).filter((item) => item.type === "function_call_result");
    const said = results.map(({ output }) => output.text ?? output).join("; ");
    const output = results.length
      ? [{ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: said }] }]
      : calls.map(({ id, name, args }) => ({ type: "function_call", callId: id, name, arguments: JSON.stringify(args), status: "completed" }));
    return { usage: new Usage(), output };
  },
});

const agentOf = (c) => new Agent({ name: "agent", model: standIn(...c.calls), tools: c.calls.map(({ name }) => tool(gated(c.client, {
  name, description: "A tool of the test.", parameters: z.object({ word: z.string(), n: z.number() }), execute: c.run,
}, c.how))) });

const outcome = (result) => (result.interruptions.length ? { parked: result.state.toString() } : { said: result.finalOutput });

export const begin = async (c) => outcome(await new Runner().run(agentOf(c), "Go on."));

export async function resume(c, parked) {
  const agent = agentOf(c);
  const state = await RunState.fromString(agent, parked);
  if (c.forced) for (const each of state.getInterruptions()) state.approve(each);
  else if (!(await awaitDecisions(state, c.wait))) return { parked };
  return outcome(await new Runner().run(agent, state));
}
