// What is sent and answered: a call, the decision on it, and the approval that it waits for.
import { canonical } from "./canon.js";
/** The body of a check. Throws TypeError for arguments that are not JSON. */
export function checkBody(tool, args, p) {
    return encode({
        tool_name: tool,
        tool_category: p.category ?? "unknown",
        authorization_state: p.authorizationState ?? "none",
        evidence_refs: p.evidence ?? [],
        risk_domain: p.riskDomain ?? "unknown",
        proposed_arguments: args,
        recommended_route: p.route ?? "accept",
        ...(p.intent ? { user_intent: p.intent } : {}),
        ...(p.onBehalfOf ? { authorization_subject: { subject_ref: p.onBehalfOf } } : {}),
        ...(p.requestId ? { request_id: p.requestId } : {}),
        ...(p.separate ? { separate: true } : {}),
        ...(p.wantToken ? { want_token: true } : {}),
    });
}
/** The headers of a check. */
export function checkHeaders(p) {
    return {
        ...(p.session ? { [SESSION]: p.session } : {}),
        ...(p.preconditions && Object.keys(p.preconditions).length ? { [PRECONDITIONS]: encode(p.preconditions) } : {}),
    };
}
export const PRECONDITIONS = "Holdpoint-Preconditions";
const SESSION = "Holdpoint-Session";
/**
 * What makes two proposals one call: tool, arguments, on whose behalf, session, preconditions, and what decides how strictly
 * it is judged. A call that asks for more people than the unfinished one did is another call. "" for a call that is to be apart
 * from its equals (separate).
 */
export function identity(body, headers) {
    const event = JSON.parse(body);
    if (event["separate"])
        return "";
    const depends = JSON.parse(headers[PRECONDITIONS] || "{}");
    const judged = ["recommended_route", "tool_category", "risk_domain", "authorization_state"].map((name) => event[name] ?? "");
    try {
        return canonical([event["tool_name"] ?? null, event["proposed_arguments"] ?? null, json(event["authorization_subject"]), headers[SESSION] ?? "", depends, ...judged]);
    }
    catch {
        return ""; // the server does not read it either
    }
}
/**
 * Whether a call's name is a key of the caller's own, in a journal of a version that did not write so: calls under such a key
 * ask for a token, and its form is none of ours, in whichever language.
 */
export function isOwnKey(call, body) {
    return !/^(?:[A-Z2-7]{26}|[0-9a-f]{32})$/.test(call) && JSON.parse(body)["want_token"] === true;
}
export function isRead(body) {
    return ["public_read", "private_read"].includes(JSON.parse(body)["tool_category"]);
}
/** The body of a redemption. */
export function redeemBody(token, tool, args, preconditions) {
    const depends = preconditions && Object.keys(preconditions).length ? { preconditions } : {};
    return encode({ token, tool_name: tool, arguments: args, ...depends });
}
/** JSON, which has no NaN: JSON.stringify would say null instead. */
export function encode(value) {
    return JSON.stringify(value, (_, each) => {
        if (typeof each === "number" && !Number.isFinite(each))
            throw new TypeError("a number is not JSON");
        return each;
    });
}
const text = (value) => (typeof value === "string" ? value : "");
const json = (value) => (isObject(value) ? value : {});
const list = (value) => (Array.isArray(value) ? value : []);
export function isObject(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}
/** A call that waits, or has waited, for people. */
export class Approval {
    id;
    status; // a Status, or one that is not known
    toolName;
    expiresAt;
    digest; // of tool and arguments
    nextAction; // wait, answer, attach_ticket, verify, none
    execution; // none, redeemed, succeeded, failed, unknown
    reasons;
    denial;
    /** What a reviewer wants to know: Client.inform. */
    question;
    successor;
    /** The page on which a person decides. */
    review;
    /** Set when a reviewer has changed the arguments: these are what is approved, and what runs. */
    edited;
    #raw;
    constructor(raw) {
        this.#raw = raw;
        this.id = text(raw["id"]);
        this.status = text(raw["status"]);
        this.toolName = text(raw["tool_name"]);
        this.expiresAt = text(raw["expires_at"]);
        this.digest = text(raw["digest"]);
        this.nextAction = text(raw["next_action"]);
        this.execution = text(raw["execution"]);
        this.reasons = list(raw["reasons"]).filter(isObject);
        this.denial = isObject(raw["denial"]) ? raw["denial"] : undefined;
        this.question = text(json(raw["question"])["text"]);
        this.successor = text(raw["successor"]);
        this.review = text(json(raw["links"])["review"]);
        this.edited = isObject(raw["edited"]) ? json(raw["edited"]["arguments"]) : undefined;
    }
    /** Permits the call to run once; "" unless approved. No member, so that printing an approval does not show it. */
    get token() {
        return text(this.#raw["resumption_token"]);
    }
    /** All that the server said. */
    get raw() {
        return this.#raw;
    }
    /** Whether nothing can change the status any more. A status that is not known is not final. */
    get final() {
        return ["approved", "denied", "expired", "cancelled"].includes(this.status);
    }
}
/** The answer to a proposed call. */
export class Decision {
    hardBlockers;
    reasons;
    /** What is wrong with the proposal itself, such as "$.tool_category: The field is required."; [] for nothing. */
    invalid;
    /** What an accepted call has to keep to; {} for nothing. */
    constraints;
    approval;
    /** The very call waited already: approval is that one. */
    joined;
    /** Whether the call may run at once. */
    accepted;
    #raw;
    /** All that the server said. */
    get raw() {
        return this.#raw;
    }
    constructor(raw) {
        this.#raw = raw;
        this.hardBlockers = list(raw["hard_blockers"]).map(String);
        this.reasons = list(raw["reasons"]).map(String);
        this.invalid = list(raw["validation_errors"]).filter(isObject).map((error) => `${error["path"]}: ${error["message"]}`);
        this.constraints = json(raw["constraints"]);
        this.approval = isObject(raw["approval"]) ? new Approval(raw["approval"]) : undefined;
        this.joined = raw["joined"] === true;
        // The contract's six conditions, that the server says so in as many words, that nothing waits, and that it was no dry
        // run. A list that is absent does not count as empty.
        const empty = (value) => Array.isArray(value) && value.length === 0;
        const absent = (value) => value === undefined || value === null;
        this.accepted =
            raw["gate_decision"] === "pass" &&
                raw["recommended_action"] === "accept" &&
                json(raw["architecture_decision"])["route"] === "accept" &&
                empty(raw["hard_blockers"]) &&
                empty(json(raw["aix"])["hard_blockers"]) &&
                (absent(raw["validation_errors"]) || empty(raw["validation_errors"])) &&
                json(raw["execution_policy"])["execution_allowed"] === true &&
                json(raw["execution_policy"])["mode"] !== "shadow" &&
                (absent(raw["shadow_mode"]) || raw["shadow_mode"] === false) &&
                absent(raw["approval"]) &&
                (absent(raw["constraints"]) || isObject(raw["constraints"]));
    }
}
/** Reads the answer to a redemption; undefined unless it says that the token is redeemed. */
export function redemptionOf(raw) {
    if (!isObject(raw) || raw["redeemed"] !== true)
        return undefined;
    const limits = raw["constraints"];
    if (limits !== undefined && limits !== null && !isObject(limits))
        return undefined;
    return { approvalId: text(raw["approval_id"]), constraints: json(limits), leaseUntil: text(raw["lease_until"]), replayed: raw["replayed"] === true };
}
