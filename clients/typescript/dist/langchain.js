// For LangChain.js and LangGraph.js (@langchain/core, @langchain/langgraph). A gated tool waits for people, or, given LangGraph's
// interrupt, interrupts the graph, whose checkpoint any process resumes. What it is resumed with permits nothing: the tool asks the
// server.
import { decided, Gate, NotRun, parserOf } from "./gate.js";
export { NotRun } from "./gate.js";
/**
 * Gates a tool, which is changed and returned. Why a call of the model's did not run is its result; a call of a program's throws.
 */
export function gated(client, tool, { interrupt, ...how } = {}) {
    const { func } = tool;
    if (Gate.of(func))
        throw new TypeError(`${tool.name} is gated already`);
    const parser = parserOf(tool.schema);
    const parse = how.parse ?? (parser && ((args) => objectOf(parser(args))));
    const gate = new Gate(client, tool.name, { ...how, ...(parse ? { parse } : {}) }, async (args, text, ...more) => returned(await func.call(tool, text ? args.input : args, ...more)));
    tool.func = gate.behind(async (input, manager, config) => {
        const args = objectOf(input), text = args !== input;
        const call = { id: config?.toolCall?.id, scope: String(config?.configurable?.thread_id ?? ""), signal: config?.signal, more: [text, manager, config] };
        try {
            for (let approval; interrupt && call.id && (approval = await gate.pending(args, call.id, call.scope));) {
                interrupt({ holdpoint: approval.id, tool: tool.name, review: approval.review }); // throws, until the graph is resumed
            }
            return await gate.run(args, call);
        }
        catch (error) {
            if (error instanceof NotRun && call.id)
                return tool.responseFormat === "content_and_artifact" ? [error.message, undefined] : error.message;
            throw error;
        }
    });
    return tool;
}
/** The only argument of a tool that takes a text has a name as well. */
function objectOf(input) {
    return typeof input === "string" ? { input } : input;
}
/** A tool that yields has run when it is through; what it returns then is its result. */
async function returned(value) {
    if (typeof value !== "object" || value === null || !(Symbol.asyncIterator in value))
        return value;
    const steps = value[Symbol.asyncIterator]();
    for (;;) {
        const step = await steps.next();
        if (step.done)
            return step.value;
    }
}
/**
 * Waits until people have decided on a call that interrupted the graph: what the graph is resumed with, by new Command({ resume }).
 * undefined when the time is over before; with timeoutMs 0 it looks without waiting.
 */
export async function awaitDecisions(client, interrupts, { timeoutMs } = {}) {
    const waiting = interrupts.flatMap(({ id, value }) => {
        const approval = value?.holdpoint;
        return id && typeof approval === "string" ? [{ client, interrupt: id, id: approval }] : [];
    });
    while (waiting.length) {
        const now = await Promise.all(waiting.map(async ({ interrupt, id }) => [interrupt, await client.get(id)]));
        const over = now.filter(([, approval]) => approval.final);
        if (over.length)
            return Object.fromEntries(over.map(([interrupt, approval]) => [interrupt, approval.status]));
        if (!(await decided(waiting, false, timeoutMs)))
            break;
    }
    return undefined;
}
