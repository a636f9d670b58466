// A client of the Model Context Protocol, made of the official TypeScript SDK,
// for the tests to drive. It connects over stdio to a program, or over
// streamable HTTP to an address with the key in HOLDPOINT_TEST_KEY; then it
// does what each line of standard input says and answers it with a line:
//
//   {"do": "list"}                                   -> {"tools": […]}
//   {"do": "call", "tool", "arguments", "meta"}      -> {"result": {…}}, and with
//     "progress": true a line {"progress": {…}} before it for each notification
//   {"do": "discover"}                               -> {"resource": {…}}, what
//     a client that is turned away reads about the server (RFC 9728)
//
// Usage: node client.mjs stdio PROGRAM ARG…  |  node client.mjs http URL
import { createInterface } from "node:readline";
import { discoverOAuthProtectedResourceMetadata, extractWWWAuthenticateParams } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [kind, where, ...args] = process.argv.slice(2);
const transport =
  kind === "stdio"
    ? new StdioClientTransport({ command: where, args, stderr: "inherit" })
    : new StreamableHTTPClientTransport(new URL(where), {
        requestInit: { headers: { Authorization: `Bearer ${process.env.HOLDPOINT_TEST_KEY}` } },
      });
const client = new Client({ name: "tests", version: "1" });
client.onerror = (error) => console.error("client:", error.message);
const answer = (value) => process.stdout.write(JSON.stringify(value) + "\n");

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
    } else {
      const onprogress = order.progress ? (progress) => answer({ progress }) : undefined;
      answer({ result: await client.callTool({ name: order.tool, arguments: order.arguments ?? {}, _meta: order.meta ?? undefined }, undefined, { onprogress }) });
    }
  } catch (error) {
    answer({ failed: error.message });
  }
}
await client.close();
