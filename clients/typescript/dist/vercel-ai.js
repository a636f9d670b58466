// For the Vercel AI SDK (ai, from version 6). A call that people have to decide on is a request for approval in the messages, and
// generateText or streamText ends there. The messages can be kept, and any process goes on with them. What they say permits
// nothing: execute asks the server.
import { decided, denied, Gate, parserOf } from "./gate.js";
export { NotRun } from "./gate.js";
const partsOf = (messages) => messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
/** Gates tools, each under its name in the set. A call that did not run is an error with the text of NotRun. */
export function gated(client, tools, how = {}) {
    return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, gatedTool(client, name, tool, how)]));
}
function gatedTool(client, name, tool, how) {
    const { execute, inputSchema, needsApproval } = tool;
    if (!execute)
        throw new TypeError(`${name} has no execute: it runs elsewhere`);
    if (needsApproval)
        throw new TypeError(`${name} has a needsApproval of its own`);
    const parse = how.parse ?? parserOf(inputSchema);
    const gate = new Gate(client, name, { ...how, ...(parse ? { parse } : {}) }, async (...args) => last(await execute(...args)));
    return {
        ...tool,
        // A call that has been asked for stays so: the SDK looks again before it takes the answer.
        needsApproval: gate.behind(async (input, { toolCallId, messages }) => partsOf(messages).some((part) => part.type === "tool-approval-request" && part.toolCallId === toolCallId) || !!(await gate.pending(input, toolCallId))),
        execute: (input, call) => gate.run(input, { id: call.toolCallId, signal: call.abortSignal, more: [call] }),
    };
}
/** A tool that yields has run when it has yielded its last, which is its result. */
async function last(value) {
    if (typeof value !== "object" || value === null || !(Symbol.asyncIterator in value))
        return value;
    let result;
    for await (result of value)
        ;
    return result;
}
export async function awaitDecisions(tools, messages, { timeoutMs } = {}) {
    const parts = partsOf(messages);
    const answered = new Set(parts.filter((part) => part.type === "tool-approval-response").map((part) => part.approvalId));
    for (;;) {
        const responses = [], waiting = [];
        for (const { approvalId, toolCallId } of parts.filter((part) => part.type === "tool-approval-request" && !answered.has(part.approvalId))) {
            const call = parts.find((part) => part.type === "tool-call" && part.toolCallId === toolCallId);
            const gate = call && Gate.of(tools[call.toolName]?.needsApproval);
            if (!gate)
                continue;
            const approval = await gate.standing(call.input, toolCallId);
            if (approval && !approval.final)
                waiting.push({ client: gate.client, id: approval.id });
            const approved = !approval || approval.status === "approved"; // execute is told what the server says now
            responses.push({ type: "tool-approval-response", approvalId, approved, ...(approved ? {} : { reason: denied(approval) }) });
        }
        if (!waiting.length)
            return responses;
        if (!(await decided(waiting, true, timeoutMs)))
            return undefined;
    }
}
