// The guard around tools: the life of a call.
//
//   proposed ─┬─ accepted ────────────────────────────────────► begun ─► ran ─► over
//             ├─ waiting ─┬─ approved ─► redeeming ─► redeemed ──┘
//             │           └─ denied, expired, cancelled ──────────────────────► over
//             └─ refused ─────────────────────────────────────────────────────► over
//
// Each arrow is a line of the journal, if there is one, before what it announces.
import { AlreadyDone, ConstraintsNotKept, EditNotUsable, HoldpointError, JournalError, NotApproved, OutcomeUnknown, Problem, Refused, Stopped, Uncertain, Unreachable, Unreported } from "./errors.js";
import { goesOnAs, Journal, newEntry } from "./journal.js";
import { newKey, Requests } from "./requests.js";
import { checkBody, checkHeaders, identity, PRECONDITIONS, redeemBody } from "./wire.js";
/** One agent at one server. */
export class Client extends Requests {
    #journal;
    #tools = new Map();
    #live = new Set();
    #onWait;
    #onQuestion;
    #asked = new Map(); // the last question that was told of an approval
    constructor(options = {}) {
        super(options);
        this.#journal = options.journal === undefined ? undefined : new Journal(options.journal);
        this.#onWait = options.onWait === undefined ? sayWhatWaits : (options.onWait ?? (() => { }));
        this.#onQuestion = options.onQuestion === undefined ? sayWhatIsAsked : (options.onQuestion ?? (() => { }));
    }
    /**
     * Wraps a tool so that it runs only when it is permitted. A call of it is proposed with its arguments, waits for people
     * as long as it takes, and then runs with the arguments that they approved, also where they edited them. It rejects with
     * Refused or NotApproved, Stopped, or what else keeps it from running. The server is told what became of it: succeeded;
     * failed for an error; unknown for Uncertain, and for an AbortError or TimeoutError.
     */
    guard(options, run) {
        const made = { options, run };
        this.#tools.set(options.tool, made);
        return (args, call = {}) => this.#start(made, args, call);
    }
    /** The calls of the journal that are not over and that this process is not busy with. */
    unfinished() {
        if (!this.#journal)
            throw new HoldpointError("without a journal nothing is known of earlier calls");
        return this.#journal.unfinished().filter((e) => !this.#live.has(e.call)).map((e) => new Unfinished(this, e));
    }
    async #start(made, args, { key = "", signal, ...more }) {
        const { tool, constraints: _c, parse: _p, timeoutMs: _t, cancelWhenStopped: _w, ...proposal } = { ...made.options, ...more };
        if (key)
            proposal.wantToken = true; // the server redeems it once, whoever asks twice
        const body = checkBody(tool, args, proposal);
        const entry = key ? this.#journal?.entry(key) : undefined;
        if (entry && (entry.step !== "over" || entry.outcome) && entry.body !== body)
            throw new JournalError("the key belongs to another call");
        const sought = this.#journal && !key ? identity(body, checkHeaders(proposal)) : "";
        return this.#go({ made, name: key || newKey(), named: !!key, sought, redeemKeys: [], proposal, args: argumentsOf(body), entry, signal, approvalId: "" });
    }
    /** @internal Tells of a call that begins to wait. */
    tellWait(approval) {
        this.#onWait(approval);
    }
    /** @internal Tells of a question about a call that waits, once. */
    async tellQuestion(approval) {
        const question = JSON.stringify(approval.raw["question"]);
        if (!approval.question || this.#asked.get(approval.id) === question)
            return;
        this.#asked.set(approval.id, question);
        await this.#onQuestion(approval);
    }
    /** @internal Goes on with a call of the journal. */
    async goOn(entry, signal) {
        const made = this.#tools.get(entry.tool);
        if (!made)
            throw new HoldpointError(`no tool ${entry.tool} is guarded here`);
        const preconditions = preconditionsOf(entry);
        return this.#go({ made, name: entry.call, named: entry.named, sought: "", redeemKeys: [], proposal: { preconditions }, args: argumentsOf(entry.body), entry, signal, approvalId: "" });
    }
    /** @internal Says what became of a call that had begun. */
    settle(entry, outcome) {
        return this.#settle(entry, outcome, 0, true);
    }
    /** @internal Does not go on with a call of the journal, unless it has begun by now. */
    async drop(call) {
        const journal = this.#journal;
        if (this.#live.has(call))
            throw new HoldpointError("a call under this key is on its way");
        this.#live.add(call);
        try {
            const now = journal.entry(call); // it may be further on than when it was listed
            if (!now || now.step === "begun" || now.step === "ran" || now.outcome)
                throw new HoldpointError("the call has begun: settle it");
            if (now.step === "over")
                return;
            if (now.step === "waiting")
                await this.#takeBack(now.approval);
            // Whoever has the right to run the call may say that it does not run: nobody else can begin it any more.
            const by = journal.begin(call);
            if (!by)
                throw new HoldpointError("the call has begun: settle it");
            await this.#notRun(journal.entry(call));
            journal.write(call, "over", { why: "dropped", by });
        }
        finally {
            this.#live.delete(call);
        }
    }
    /**
     * Says that a call did not run whose token was spent by a redemption of this journal. Another program of the agent may have
     * spent it as well, and be running the call.
     */
    async #notRun(entry) {
        for (let i = entry.redeemKeys.length - 1; i >= 0; i--) {
            try {
                await this.redeemBody(entry.redeemBodies[i], entry.redeemKeys[i]);
            }
            catch (error) {
                if (!(error instanceof Problem))
                    throw error;
                if (error.code === "token_used")
                    continue;
                if (verdictOf(error) === "again" && (await this.get(entry.approval)).execution !== "none")
                    throw error;
                return;
            }
            await this.report(entry.approval, "failed").catch((error) => {
                if (!(error instanceof Problem) || verdictOf(error) === "again")
                    throw error; // else nobody takes it any more, which is as good
            });
            return;
        }
    }
    /**
     * Goes on with what an earlier start of this very call left unfinished, before anything new is proposed. What this process is
     * busy with is another call, although it says the same.
     */
    #takeUp(run) {
        const left = run.sought ? this.#journal?.unfinished().find((e) => !this.#live.has(e.call) && goesOnAs(e, run.sought)) : undefined;
        if (!left)
            return;
        Object.assign(run, { name: left.call, entry: left, args: argumentsOf(left.body), proposal: { ...run.proposal, preconditions: preconditionsOf(left) } });
    }
    async #go(run) {
        this.#takeUp(run);
        if (this.#live.has(run.name))
            throw new HoldpointError("a call under this key is on its way");
        this.#live.add(run.name);
        try {
            const constraints = await this.#permit(run);
            const began = performance.now();
            let value;
            try {
                value = await run.made.run(run.args, { constraints, approvalId: run.approvalId });
            }
            catch (error) {
                await this.#finish(run, outcomeOf(error), began, undefined, error);
                throw error;
            }
            await this.#finish(run, "succeeded", began, value, undefined);
            return value;
        }
        finally {
            this.#live.delete(run.name);
        }
    }
    /** Does what has to be done until the call may run, and returns its constraints. Any error means that it may not. */
    async #permit(run) {
        let { entry } = run;
        if (entry && (entry.step === "begun" || entry.step === "ran" || entry.outcome))
            await this.#refuseSecond(entry);
        let limits = {}, redeemed, approval;
        run.redeemKeys = [...(entry?.redeemKeys ?? [])];
        if (run.sought && entry?.step === "waiting")
            approval = await this.#leftWaiting(run, entry);
        entry = run.entry;
        if (entry?.step === "waiting" || entry?.step === "redeeming")
            run.approvalId = entry.approval;
        else
            ({ approval, limits } = await this.#propose(run));
        const proposed = run.args;
        if (entry?.step === "redeeming") {
            // With the bytes of before, because nobody knows whether they arrived; the call has not begun. Where several processes
            // have redeemed it, one of them has spent the token, by its own key: the newest is tried first.
            for (let i = entry.redeemKeys.length - 1, spent = "by another key"; i >= 0 && spent === "by another key"; i--) {
                const body = entry.redeemBodies[i];
                run.args = JSON.parse(body).arguments;
                spent = await this.#spend(run, body, entry.redeemKeys[i], true, i > 0);
                if (spent !== "by another key")
                    redeemed = spent;
            }
        }
        for (let i = 0; i < 2 && run.approvalId && !redeemed; i++) { // the token may have become too old
            approval = await this.#waitFor(run, approval);
            redeemed = await this.#redeem(run, approval, proposed);
            approval = undefined;
        }
        if (run.approvalId && !redeemed)
            throw new HoldpointError(`the server takes no token for ${run.approvalId}, not even a fresh one`);
        if (redeemed)
            limits = redeemed.constraints;
        if (Object.keys(limits).length && !run.made.options.constraints) {
            if (redeemed)
                await this.report(run.approvalId, "failed");
            this.#write(run, "over", { why: "constraints" });
            throw new ConstraintsNotKept(`${run.made.options.tool} may run under constraints only, and does not take them`);
        }
        if (this.#journal && !this.#journal.begin(run.name))
            throw new OutcomeUnknown(run.name, run.approvalId);
        return limits;
    }
    /** How the approval stands that an earlier start left waiting; undefined where the wait finds out, or for a new proposal. */
    async #leftWaiting(run, entry) {
        let why;
        try {
            const approval = await this.get(entry.approval);
            const over = approval.status === "approved" && !approval.token && ["", "none"].includes(approval.execution);
            if (approval.status !== "expired" && approval.status !== "cancelled" && !over)
                return approval;
            why = over ? "no_token" : approval.status; // its time to run is over, and it did not
        }
        catch (error) {
            if (error instanceof Problem && error.status === 404)
                why = error.code;
            else if (error instanceof HoldpointError && error.retryable)
                return undefined;
            else
                throw error;
        }
        // It ended without anybody's no: the call that was made now is proposed.
        this.#write(run, "over", { why });
        this.#live.delete(run.name);
        Object.assign(run, { name: newKey(), entry: undefined, sought: "" });
        this.#live.add(run.name);
        return undefined;
    }
    async #refuseSecond(entry) {
        if (entry.step === "begun")
            throw new OutcomeUnknown(entry.call, entry.approval);
        if (entry.step === "ran")
            await this.#settle(entry, entry.outcome, entry.milliseconds);
        throw new AlreadyDone(entry.call, entry.outcome);
    }
    async #propose(run) {
        const { tool } = run.made.options;
        let key = run.name, body, headers;
        if (run.entry?.step === "proposed")
            ({ key, body, headers } = run.entry);
        else {
            body = checkBody(tool, run.args, run.proposal);
            headers = checkHeaders(run.proposal);
            this.#write(run, "proposed", { tool, key, body, headers, ...(run.named ? { named: true } : {}) });
        }
        const decision = await this.checkBody(body, headers, key).catch((error) => {
            if (error instanceof Problem || error instanceof Unreachable)
                this.#write(run, "over", { why: error instanceof Problem ? error.code : "unreachable" });
            throw error;
        });
        if (decision.accepted)
            return { approval: undefined, limits: decision.constraints };
        if (!decision.approval?.id) {
            this.#write(run, "over", { why: "refused" });
            throw new Refused(tool, decision);
        }
        run.approvalId = decision.approval.id;
        this.#write(run, "waiting", { approval: run.approvalId });
        let approval = decision.approval;
        // Perhaps an answer of before, which is kept with its key. What keeps it from being read, the wait says.
        if ((run.entry || run.named) && !approval.final)
            approval = await this.get(run.approvalId).catch(() => undefined);
        return { approval, limits: {} };
    }
    async #waitFor(run, approval) {
        if (!approval?.final) {
            const onWait = approval ? undefined : (waits) => this.tellWait(waits);
            if (approval)
                this.tellWait(approval);
            try {
                approval = await this.wait(run.approvalId, { signal: run.signal, timeoutMs: run.made.options.timeoutMs, onQuestion: (asked) => this.tellQuestion(asked), onWait });
            }
            catch (error) {
                if (error instanceof Stopped && run.made.options.cancelWhenStopped && (await this.#abandon(run)))
                    throw new Stopped(run.approvalId, { cause: error.cause }, true);
                throw error;
            }
        }
        if (approval.status !== "approved") {
            this.#write(run, "over", { why: approval.status });
            throw new NotApproved(approval);
        }
        return approval;
    }
    /** Nobody waits any more, and the approval is to be taken back. Says whether it was. */
    async #abandon(run) {
        try {
            await this.#takeBack(run.approvalId);
            this.#write(run, "over", { why: "cancelled" });
            return true;
        }
        catch (error) {
            if (!(error instanceof HoldpointError))
                throw error; // why the wait ended is told; the call stays unfinished
            return false;
        }
    }
    async #redeem(run, approval, proposed) {
        const { tool, parse } = run.made.options;
        const approved = approval.edited ?? proposed;
        let args = approved;
        if (approval.edited && parse) {
            try {
                args = parse(approval.edited);
            }
            catch (error) {
                this.#write(run, "over", { why: "edit_not_usable" });
                throw new EditNotUsable(`a reviewer changed the arguments of ${tool} to ones that it does not take`, { cause: error });
            }
        }
        if (!approval.token) {
            this.#write(run, "over", { why: "no_token" });
            if (approval.execution && approval.execution !== "none")
                throw new AlreadyDone(run.name, approval.execution);
            throw new HoldpointError(`${approval.id} is approved, but there is no token: its time to run is over, or the key is not its agent's`);
        }
        const body = redeemBody(approval.token, tool, approved, run.proposal.preconditions);
        const key = newKey();
        run.redeemKeys.push(key);
        this.#write(run, "redeeming", { approval: approval.id, key, body });
        run.args = args;
        const spent = await this.#spend(run, body, key);
        return spent === "by another key" ? undefined : spent; // it is told only where others are to be tried
    }
    /**
     * undefined when the token was not spent and is not good any more: it takes a fresh one. "by another key" when it was
     * spent so, and there are others to try.
     */
    async #spend(run, body, key, again = false, others = false) {
        try {
            return await this.redeemBody(body, key);
        }
        catch (error) {
            if (!(error instanceof Problem))
                throw error;
            let verdict = verdictOf(error);
            if (verdict === "again" && again && error.status < 500 && (await this.get(run.approvalId)).execution === "none") {
                verdict = "fresh"; // a former answer, which is kept with its key, although the reason for it may have gone
            }
            if (verdict === "fresh")
                return undefined;
            if (others && error.code === "token_used")
                return "by another key";
            // Whoever redeemed it, another process, goes on with the call.
            const elsewhere = verdict === "done" && this.#journal?.entry(run.name)?.redeemKeys.some((each) => !run.redeemKeys.includes(each));
            if (!elsewhere && (verdict === "done" || verdict === "refused"))
                this.#write(run, "over", { why: error.code });
            if (verdict === "done")
                throw new AlreadyDone(run.name, "", { cause: error });
            throw error;
        }
    }
    async #finish(run, outcome, began, value, error) {
        try {
            await this.#settle(newEntry(run.name, run.approvalId), outcome, Math.round(performance.now() - began), true);
        }
        catch (unreported) {
            throw new Unreported(run.approvalId, value, error, { cause: unreported });
        }
    }
    /** Puts on record what became of a call: in the journal, and with the server. */
    async #settle(entry, outcome, milliseconds, write = false) {
        let why = "reported";
        try {
            if (write)
                this.#journal?.write(entry.call, "ran", { outcome, ms: milliseconds });
        }
        finally {
            if (entry.approval) {
                await this.report(entry.approval, outcome, milliseconds, `${entry.approval}:report:${outcome}`).catch((error) => {
                    // Late, but on record; or, on going on, said before, or nobody takes it any more: there is nothing to wait for.
                    if (error instanceof Problem && error.code === "lease_ended")
                        return;
                    if (!(error instanceof Problem) || !entry.step || verdictOf(error) === "again")
                        throw error;
                    why = error.code;
                });
            }
        }
        this.#journal?.write(entry.call, "over", { why });
    }
    /** Cancels what nobody waits for. That it is over by itself is as good. */
    async #takeBack(approvalId) {
        await this.cancel(approvalId).catch((error) => {
            if (!(error instanceof Problem && (error.status === 409 || error.status === 410)))
                throw error;
        });
    }
    #write(run, step, more) {
        this.#journal?.write(run.name, step, more);
    }
}
/**
 * A call that a former process left behind, or whose wait was stopped. state: proposed, waiting or redeeming, which resume
 * runs; begun, where it is unknown whether it ran; ran, where only the report is missing, which resume makes up for.
 */
export class Unfinished {
    call;
    state;
    tool;
    args;
    approvalId;
    #client;
    #entry;
    constructor(client, entry) {
        this.#client = client;
        this.#entry = entry;
        this.call = entry.call;
        this.state = entry.step;
        this.tool = entry.tool;
        this.args = entry.body ? argumentsOf(entry.body) : {};
        this.approvalId = entry.approval;
    }
    /** Goes on: waits, and runs the tool of this name, which is guarded again by now. Rejects as a guarded call does. */
    resume(options = {}) {
        return this.#client.goOn(this.#entry, options.signal);
    }
    /** Says what became of a call that had begun. */
    async settle(outcome) {
        if (this.state !== "begun")
            throw new HoldpointError("the call has not begun, or its outcome is known");
        await this.#client.settle(this.#entry, outcome);
    }
    /**
     * Does not go on with a call that has not begun: what waits is taken back. What has begun meanwhile, in another process for
     * example, is not dropped: that rejects.
     */
    async drop() {
        await this.#client.drop(this.call);
    }
}
/** What is run is what was sent, whatever becomes of the caller's object meanwhile. */
function argumentsOf(body) {
    return JSON.parse(body).proposed_arguments;
}
function preconditionsOf(entry) {
    return JSON.parse(entry.headers[PRECONDITIONS] ?? "{}");
}
/** Tells whoever looks at the program that a call waits, for whom, and where that is decided: on standard error. */
export function sayWhatWaits(approval) {
    const requirements = (Array.isArray(approval.raw["requirements"]) ? approval.raw["requirements"] : []);
    const needs = requirements
        .filter((r) => r["status"] === "waiting" || r["status"] === "queued")
        .map((r) => (r["role"] ? `${r["kind"]} by ${r["needed"]} × ${r["role"]}` : String(r["kind"])));
    say(`holdpoint: ${approval.toolName} waits for ${needs.join(", then ") || "people"}${approval.review && ": " + approval.review}`);
}
/** Tells whoever looks at the program what a reviewer wants to know, and who answers: on standard error. */
export function sayWhatIsAsked(approval) {
    say(`holdpoint: a reviewer of ${approval.toolName} asks: “${approval.question}” It waits for the answer: of the program, by inform, ` +
        `or of the agent's owner${approval.review && ": " + approval.review}`);
}
function say(text) {
    process.stderr.write(text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "?") + "\n");
}
/**
 * What an error of a redemption means for a call that has not begun. again: the same request may be answered otherwise later.
 * fresh: not spent, and the token is not good any more. done: it ran, or was spent by somebody else. refused: this call does
 * not run.
 */
export function verdictOf(problem) {
    if (["token_expired", "token_invalid"].includes(problem.code))
        return "fresh";
    if (["already_reported", "token_used"].includes(problem.code))
        return "done";
    if (problem.retryable || problem.status === 401 || problem.status === 423)
        return "again";
    // What is not the server's own word: something went wrong, or stands in between.
    return Math.floor(problem.status / 100) !== 4 || problem.code.startsWith("http_") ? "again" : "refused";
}
/** What a tool's error says of its effect. */
function outcomeOf(error) {
    const name = error instanceof Error ? error.name : "";
    return error instanceof Uncertain || name === "AbortError" || name === "TimeoutError" ? "unknown" : "failed";
}
