// A client of the Model Context Protocol, made of the official TypeScript SDK,
// for the tests to drive. It connects over stdio to a program, or over
// streamable HTTP to an address with the key in HOLDPOINT_TEST_KEY; then it
// does what each line of standard input says and answers it with a line:
//
//   {"do": "list"}                                   -> {"tools": […]}
//   {"do": "call", "tool", "arguments", "meta"}      -> {"result": {…}}, and with
//     "progress": true a line {"progress": {…}} before it for each notification
//   {"do": "task", "tool", "arguments"}              -> {"task": id}, of a call as a
//     task; {"do": "await" | "get" | "cancel", "task"} -> {"state", "result"}, as it
//     was last, with its result where it is over; {"do": "tasks"} -> {"states": […]};
//     {"do": "result", "task"} -> {"result"}, of a task of another process, too
//   {"do": "links"}                                  -> {"links": […], "over": […]},
//     which it was to show its user, and which of them are over
//   {"do": "kill"}                                   -> {}, the program is dead
//   {"do": "discover"}                               -> {"resource": {…}}, what
//     a client that is turned away reads about the server (RFC 9728)
//
// Usage: node client.mjs stdio PROGRAM ARG…  |  node client.mjs http URL
import { createInterface } from "node:readline";
import { discoverOAuthProtectedResourceMetadata, extractWWWAuthenticateParams } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema, ElicitationCompleteNotificationSchema, ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [kind, where, ...args] = process.argv.slice(2);
const transport =
  kind === "stdio"
    ? new StdioClientTransport({ command: where, args, stderr: "inherit" })
    : new StreamableHTTPClientTransport(new URL(where), {
        requestInit: { headers: { Authorization: `Bearer ${process.env.HOLDPOINT_TEST_KEY}` } },
      });
const client = new Client({ name: "tests", version: "1" }, { capabilities: { elicitation: { url: {} } } });
const links = [], over = [], running = new Map();
client.setRequestHandler(ElicitRequestSchema, ({ params }) => (links.push(params), { action: "accept" }));
client.setNotificationHandler(ElicitationCompleteNotificationSchema, ({ params }) => void over.push(params.elicitationId));
client.onerror = (error) => console.error("client:", error.message);
const answer = (value) => process.stdout.write(JSON.stringify(value) + "\n");

async function begin({ tool, arguments: args = {} }) {
  const options = { task: {}, onprogress: () => {} };
  const stream = client.experimental.tasks.callToolStream({ name: tool, arguments: args }, undefined, options);
  const { value } = await stream.next();
  if (value.type !== "taskCreated") throw value.error ?? new Error(`no task, but ${JSON.stringify(value)}`);
  running.set(value.task.taskId, ended(stream, value.task));
  return value.task.taskId;
}

async function ended(stream, task) {
  let state = task, result;
  for await (const message of stream) {
    if (message.type === "taskStatus") state = message.task;
    if (message.type === "result") result = message.result;
  }
  result ??= await client.experimental.tasks.getTaskResult(task.taskId, CallToolResultSchema).catch((error) => ({ isError: true, content: [{ type: "text", text: error.message }] }));
  return { state, result };
}

try {
  await client.connect(transport);
} catch (error) {
  answer({ failed: error.message });
  process.exit(1);
}
answer({ connected: client.getServerVersion() });

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  try {
    if (order.do === "list") {
      answer({ tools: (await client.listTools()).tools });
    } else if (order.do === "discover") {
      const refused = await fetch(where, { method: "POST" });
      const { resourceMetadataUrl } = extractWWWAuthenticateParams(refused);
      answer({ resource: await discoverOAuthProtectedResourceMetadata(where, { resourceMetadataUrl }) });
    } else if (order.do === "task") {
      answer({ task: await begin(order) });
    } else if (order.do === "await") {
      answer(await running.get(order.task));
    } else if (order.do === "get") {
      answer({ state: await client.experimental.tasks.getTask(order.task) });
    } else if (order.do === "result") {
      answer({ result: await client.experimental.tasks.getTaskResult(order.task, CallToolResultSchema) });
    } else if (order.do === "cancel") {
      answer({ state: await client.experimental.tasks.cancelTask(order.task) });
    } else if (order.do === "tasks") {
      answer({ states: (await client.experimental.tasks.listTasks()).tasks });
    } else if (order.do === "links") {
      answer({ links, over });
    } else if (order.do === "kill") {
      const closed = new Promise((resolve) => (client.onclose = resolve));
      client.onerror = (error) => error.code === "EPIPE" || console.error("client:", error.message); // what runs may write to the dead
      process.kill(transport.pid, "SIGKILL");
      await closed;
      answer({});
    } else {
      const onprogress = order.progress ? (progress) => answer({ progress }) : undefined;
      answer({ result: await client.callTool({ name: order.tool, arguments: order.arguments ?? {}, _meta: order.meta ?? undefined }, undefined, { onprogress }) });
    }
  } catch (error) {
    answer({ failed: error.message });
  }
}
await client.close();
