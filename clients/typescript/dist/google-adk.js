// For Google's Agent Development Kit (@google/adk). A call that people have to decide on asks for a confirmation, which the session
// keeps; any process that has the session goes on with it. That it is confirmed permits nothing: the tool asks the server.
import { decided, Gate, NotRun, parserOf } from "./gate.js";
export { NotRun } from "./gate.js";
/** Gates a tool, which is changed and returned. Why a call did not run is its result, as error. */
export function gated(client, tool, how = {}) {
    const { name, runAsync, requireConfirmation, parameters } = tool;
    if (requireConfirmation)
        throw new TypeError(`${name} has a requireConfirmation of its own`);
    if (Gate.of(runAsync))
        throw new TypeError(`${name} is gated already`);
    const parse = how.parse ?? parserOf(parameters);
    const gate = new Gate(client, name, { ...how, ...(parse ? { parse } : {}) }, async (args, request) => runAsync.call(tool, { ...request, args }));
    tool.runAsync = gate.behind(async (request) => {
        const { args, toolContext: context } = request;
        const { sessionId: scope, functionCallId: id, toolConfirmation } = context;
        if (toolConfirmation && !toolConfirmation.confirmed)
            return { error: `${name} did not run: it was declined` };
        const approval = id && !toolConfirmation ? await gate.pending(args, id, scope) : undefined;
        if (approval) {
            context.requestConfirmation({ hint: `People decide on ${name}: ${approval.review}`, payload: { holdpoint: approval.id } });
            context.actions.skipSummarization = true;
            return { error: `${name} waits for people: ${approval.review}` };
        }
        try {
            return await gate.run(args, { id, scope, signal: context.abortSignal, more: [request] });
        }
        catch (error) {
            if (error instanceof NotRun)
                return { error: error.message };
            throw error;
        }
    });
    // The kit asks this when a call has been confirmed: whether there was anything to confirm.
    return Object.assign(tool, { checkRequireConfirmation: async () => true });
}
const confirmation = "adk_request_confirmation";
/**
 * Waits until people have decided on the calls that wait in a session's events: the message with which the session goes on.
 * undefined when none waits, or the time is over before; with timeoutMs 0 it looks without waiting. Confirmations that other
 * tools ask for are left alone.
 */
export async function awaitDecisions(client, events, { timeoutMs } = {}) {
    const waiting = new Map(); // approvals, by the id of the request for a confirmation
    for (const { functionCall: call, functionResponse: answer } of events.flatMap(({ content }) => content?.parts ?? [])) {
        if (answer?.id)
            waiting.delete(answer.id);
        const asked = call?.name === confirmation ? call.args?.toolConfirmation : undefined;
        if (call?.id && typeof asked?.payload?.holdpoint === "string")
            waiting.set(call.id, asked.payload.holdpoint);
    }
    const now = await Promise.all([...waiting.values()].map((id) => client.get(id)));
    const open = now.filter((approval) => !approval.final).map(({ id }) => ({ client, id }));
    if (!waiting.size || (open.length && !(await decided(open, true, timeoutMs))))
        return undefined;
    const parts = [...waiting.keys()].map((id) => ({ functionResponse: { id, name: confirmation, response: { confirmed: true } } }));
    return { role: "user", parts };
}
