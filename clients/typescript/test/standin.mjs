// A stand-in for a server: each request is answered by the next step of a script, the last one for good.
import { createServer } from "node:http";
import { once } from "node:events";

export async function serve(t, ...steps) {
  const seen = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    seen.push({ line: `${request.method} ${request.url}`, headers: request.headers, body });
    steps[Math.min(seen.length, steps.length) - 1](response, request);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = () => new Promise((resolve) => { server.close(resolve); server.closeAllConnections(); });
  t.after(close);
  return { seen, close, url: `http://127.0.0.1:${server.address().port}/`, lines: () => seen.map((r) => r.line) };
}

export const says = (status, body, headers = {}) => (response) => {
  response.writeHead(status, { "Content-Type": status >= 400 ? "application/problem+json" : "application/json", ...headers });
  response.end(status === 304 ? undefined : typeof body === "string" ? body : JSON.stringify(body));
};
export const problem = (status, code, headers) => says(status, { code, title: "T", detail: "d" }, headers);
export const hangsUp = (response) => response.socket.destroy();

/** Sends these pieces of an event stream, and then breaks off, or with open stays silent. */
export const streams = (texts, { open = false } = {}) => (response) => {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  for (const text of texts) response.write(text);
  if (!open) response.end();
};
export const message = (approval) => `id: 1\nevent: approval\ndata: ${JSON.stringify(approval)}\n\n`;

export const ACCEPTED = {
  gate_decision: "pass", recommended_action: "accept", hard_blockers: [], aix: { hard_blockers: [] },
  architecture_decision: { route: "accept" }, execution_policy: { execution_allowed: true },
};
export const REFUSED = { ...ACCEPTED, gate_decision: "fail", recommended_action: "refuse", hard_blockers: ["runtime_refusal"] };
export const PENDING = { id: "apr_1", status: "pending", tool_name: "pay" };
export const WAITING = { ...REFUSED, recommended_action: "defer", approval: PENDING };
export const APPROVED = { ...PENDING, status: "approved", resumption_token: "TOKEN", execution: "none" };
export const DENIED = { ...PENDING, status: "denied", denial: { kind: "never", comment: "no" } };
export const EDITED = { ...APPROVED, edited: { arguments: { amount: 2 } } };
export const REDEEMED = { redeemed: true, approval_id: "apr_1", constraints: {} };
