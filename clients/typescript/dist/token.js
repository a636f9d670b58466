// The offline check of a resumption token: a compact JWS by an Ed25519 key of the server.
import { createHash, createPublicKey, verify } from "node:crypto";
import { InvalidToken } from "./errors.js";
const TOKEN_TYPE = "holdpoint-resumption+jwt";
const MAX_TOKEN_SIZE = 16 << 10;
const MAX_TOKEN_LIFE = 24 * 60 * 60;
/**
 * Checks a token against the server's /.well-known/jwks.json, and returns its claims. Throws InvalidToken. Genuine is
 * not unspent: only redeeming a token tells whether it still permits anything.
 */
export function verifyToken(jwks, token, want) {
    if (!want.issuer || !want.audience)
        throw new TypeError("say which issuer and audience are expected");
    const keys = readKeys(jwks);
    if (token.length > MAX_TOKEN_SIZE)
        throw new InvalidToken("it is too long");
    const parts = token.split(".");
    if (parts.length !== 3)
        throw new InvalidToken("it has not three parts");
    const [header, payload, signature] = parts.map(decode);
    const x = keys.get(readKid(header));
    if (x === undefined)
        throw new InvalidToken("no key of the set has the id that it names");
    const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
    if (signature.length !== 64 || !verify(null, Buffer.from(parts[0] + "." + parts[1]), key, signature)) {
        throw new InvalidToken("the signature does not verify");
    }
    const c = readClaims(payload);
    const now = Math.floor(want.now ?? Date.now() / 1000);
    const wrong = c.issuer !== want.issuer ? "another issuer signed it"
        : c.audience !== want.audience ? "it is for another environment"
            : want.subject && c.subject !== want.subject ? "it is another agent's"
                : want.digest && c.digest !== want.digest ? "it is for another call"
                    : c.notBefore < c.issuedAt || c.expires <= c.notBefore || c.expires - c.issuedAt > MAX_TOKEN_LIFE ? "its times make no sense"
                        : now < c.notBefore ? "it is not valid yet"
                            : now >= c.expires ? "it has expired"
                                : "";
    if (wrong)
        throw new InvalidToken(wrong);
    return c;
}
/** Reads base64url in its one canonical spelling: no padding, no stray bits. */
function decode(text) {
    const data = Buffer.from(text, "base64url");
    if (!text || data.toString("base64url") !== text)
        throw new InvalidToken("a part is not canonical base64url");
    return data;
}
/** The members or elements of a JSON text, as they are spelled. */
function pieces(json) {
    const found = [];
    const inner = json.trim().slice(1, -1);
    let depth = 0, start = 0;
    for (let i = 0; i < inner.length; i++) {
        const c = inner[i];
        if (c === '"') {
            for (i++; inner[i] !== '"'; i++)
                if (inner[i] === "\\")
                    i++;
        }
        else if (c === "[" || c === "{")
            depth++;
        else if (c === "]" || c === "}")
            depth--;
        else if (c === "," && depth === 0) {
            found.push(inner.slice(start, i));
            start = i + 1;
        }
    }
    if (inner.trim())
        found.push(inner.slice(start));
    return found;
}
/** Reads one JSON object whose names are all different, also when case is disregarded: the values as they are spelled. */
function object(json) {
    const value = JSON.parse(json); // so that pieces need not doubt it
    if (typeof value !== "object" || value === null || Array.isArray(value))
        throw new SyntaxError("no object");
    const members = new Map();
    const folded = new Set();
    for (const piece of pieces(json)) {
        const end = /^\s*"(?:[^"\\]|\\.)*"\s*:/s.exec(piece)[0].length;
        const name = JSON.parse(piece.slice(0, end - 1));
        if (folded.has(name.toLowerCase()))
            throw new SyntaxError("a name is there twice");
        folded.add(name.toLowerCase());
        members.set(name, piece.slice(end).trim());
    }
    return members;
}
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
function strict(data, what) {
    try {
        return object(utf8.decode(data));
    }
    catch {
        throw new InvalidToken(`${what} not strict JSON`);
    }
}
function text(members, name) {
    const raw = members.get(name) ?? "";
    return raw.startsWith('"') ? JSON.parse(raw) : "";
}
function readKid(header) {
    const h = strict(header, "its header is");
    if (h.size !== 3 || text(h, "alg") !== "EdDSA" || text(h, "typ") !== TOKEN_TYPE || !text(h, "kid")) {
        throw new InvalidToken(`its header is not {alg EdDSA, kid, typ ${TOKEN_TYPE}}`);
    }
    return text(h, "kid");
}
function readClaims(payload) {
    const m = strict(payload, "its claims are");
    const word = (name) => {
        const value = text(m, name);
        if (!value)
            throw new InvalidToken(`the claim ${name} is missing or no text`);
        return value;
    };
    const seconds = (name) => {
        // Plain digits only: no fraction, no exponent, nothing beyond 2^53.
        const raw = m.get(name) ?? "";
        if (!/^[0-9]{1,16}$/.test(raw) || Number(raw) < 1 || Number(raw) > Number.MAX_SAFE_INTEGER) {
            throw new InvalidToken(`the claim ${name} is missing or no whole number of seconds`);
        }
        return Number(raw);
    };
    let constraints = null;
    const limits = m.get("constraints");
    if (limits !== undefined) {
        try {
            object(limits);
        }
        catch {
            throw new InvalidToken("its constraints are not an object");
        }
        constraints = JSON.parse(limits);
    }
    return {
        issuer: word("iss"),
        audience: word("aud"),
        subject: word("sub"),
        issuedAt: seconds("iat"),
        notBefore: seconds("nbf"),
        expires: seconds("exp"),
        id: word("jti"),
        approvalId: word("approval_id"),
        outcome: word("outcome"),
        digest: word("digest"),
        policyDigest: word("policy_digest"),
        constraints,
    };
}
/**
 * The set's Ed25519 keys by their ids. Keys of other kinds and for other uses are passed over; a key whose id is not its
 * RFC 7638 thumbprint spoils the set.
 */
function readKeys(jwks) {
    let listed;
    try {
        const raw = object(jwks).get("keys") ?? "";
        if (!raw.startsWith("["))
            throw new SyntaxError("no keys");
        listed = pieces(raw).map(object);
    }
    catch {
        throw new InvalidToken("the keys are not a JSON Web Key Set");
    }
    const keys = new Map();
    for (const k of listed) {
        const other = (name, want) => k.has(name) && text(k, name) !== want;
        if (text(k, "kty") !== "OKP" || text(k, "crv") !== "Ed25519" || other("alg", "EdDSA") || other("use", "sig"))
            continue;
        const x = text(k, "x");
        if (decode(x).length !== 32)
            throw new InvalidToken("a key of the set is not an Ed25519 public key");
        const thumbprint = createHash("sha256").update(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`).digest("base64url");
        if (text(k, "kid") !== thumbprint)
            throw new InvalidToken("the kid of a key is not its RFC 7638 thumbprint");
        keys.set(thumbprint, x);
    }
    if (keys.size === 0)
        throw new InvalidToken("the set holds no Ed25519 key");
    return keys;
}
