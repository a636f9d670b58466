// An agent for the end-to-end tests (tests/clients_agents_test.go), which drive it as a process and kill it.
//
//   agent.mjs call TOOL ARGUMENTS [key=K] [timeout=SECONDS] [cancel] [hang] [separate]
//   agent.mjs resume TOOL
//   agent.mjs settle OUTCOME
//   agent.mjs list TOOL
//
// HOLDPOINT_URL and HOLDPOINT_API_KEY say where the server is, JOURNAL and RUNS name files. Each run of the tool is a line of
// RUNS. What happened is one line of JSON on standard output.
import { appendFileSync, writeSync } from "node:fs";
import { Client, digest } from "../dist/index.js";

const [command, first, ...rest] = process.argv.slice(2);
const options = Object.fromEntries(rest.map((word) => word.split("=", 2)).map(([name, value]) => [name, value ?? ""]));
const hp = new Client({ onWait: null, ...(process.env.JOURNAL ? { journal: process.env.JOURNAL } : {}) });
const say = (what) => writeSync(1, JSON.stringify(what) + "\n");

const tool = hp.guard(
  {
    tool: first, category: "public_read", riskDomain: "research", route: options.route ?? "defer", constraints: true,
    timeoutMs: options.timeout && Number(options.timeout) * 1000, cancelWhenStopped: "cancel" in options,
  },
  async (args, { constraints }) => {
    appendFileSync(process.env.RUNS, JSON.stringify({ arguments: args, constraints }) + "\n");
    say({ running: true });
    if ("hang" in options) await new Promise((resolve) => process.stdin.on("end", resolve).resume());
    if (args.fail) throw new Error("it did not work");
    return "done";
  },
);

/** What a call came to, in the words that the clients of all languages use. */
async function outcome(promise) {
  try {
    return { value: await promise };
  } catch (error) {
    return { error: error.name, code: error.code ?? "", text: error.message, status: error.approval?.status ?? "" };
  }
}

if (command === "call") {
  say(await outcome(tool(JSON.parse(rest[0]), { separate: "separate" in options, ...(options.key ? { key: options.key } : {}) })));
} else if (command === "resume") {
  const resumed = [];
  for (const left of hp.unfinished()) resumed.push({ state: left.state, ...(await outcome(left.resume())) });
  say({ resumed });
} else if (command === "settle") {
  const settled = [];
  for (const left of hp.unfinished()) settled.push(await outcome(left.settle(first).then(() => "")));
  say({ settled });
} else if (command === "list") {
  const list = [];
  for await (const { id, status, execution, digest } of hp.list({ toolName: first })) list.push({ id, status, execution, digest });
  say({ list, digest: digest(first, { n: 1 }) });
}
