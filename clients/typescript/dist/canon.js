// The digest of a call: SHA-256 of the RFC 8785 form of {"arguments", "tool"}, as the server computes it.
import { createHash } from "node:crypto";
/**
 * Names a call. Two calls have one digest exactly if they say the same. Throws TypeError for what the server does
 * not read either: NaN, -0, NUL, unpaired surrogates, what is not JSON.
 */
export function digest(tool, args) {
    return "sha256:" + createHash("sha256").update(canonical({ arguments: args, tool }), "utf8").digest("hex");
}
/** The RFC 8785 form of a JSON value. */
export function canonical(value) {
    if (value === null || typeof value === "boolean")
        return String(value);
    if (typeof value === "string")
        return text(value);
    if (typeof value === "number") {
        if (!Number.isFinite(value) || Object.is(value, -0))
            throw new TypeError("the number is not JSON");
        return String(value);
    }
    if (Array.isArray(value))
        return "[" + value.map(canonical).join(",") + "]";
    if (typeof value === "object") {
        const members = value;
        const names = Object.keys(members).sort(); // by UTF-16 code units
        return "{" + names.map((name) => text(name) + ":" + canonical(members[name])).join(",") + "}";
    }
    throw new TypeError(`${typeof value} is not JSON`);
}
const unpaired = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
function text(value) {
    if (unpaired.test(value) || value.includes("\0"))
        throw new TypeError("a text holds NUL or an unpaired surrogate");
    return JSON.stringify(value);
}
