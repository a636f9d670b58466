// Checks, in the reader's browser, that the log which was signed has exactly the
// event that a page shows. It asks the server for a proof and believes nothing of
// it: it makes every hash itself. What it does is what engine/audit describes:
// RFC 8785, RFC 6962, C2SP signed notes, Ed25519.
(() => {
  "use strict";
  const box = document.getElementById("verify");
  if (!box || !box.dataset.proof) return;
  const form = box.querySelector("form");
  const steps = box.querySelector(".steps");
  const verdict = box.querySelector(".verdictline");
  const field = form.elements.key;
  const forget = form.elements.forget;
  const serverKeys = box.dataset.keys ? box.dataset.keys.split("\n") : [];

  // Bytes.
  const utf8 = new TextEncoder();
  const join = (...parts) => {
    const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
    let at = 0;
    for (const p of parts) {
      all.set(p, at);
      at += p.length;
    }
    return all;
  };
  const same = (a, b) => a.length === b.length && a.every((v, i) => v === b[i]);
  const toBase64 = (bytes) => btoa(String.fromCharCode(...bytes));
  // One spelling only: what comes back another way was not base64 of these bytes.
  const fromBase64 = (text) => {
    let bytes = null;
    try {
      bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    } catch {
      throw new Error("this is not base64: " + String(text).slice(0, 60));
    }
    if (toBase64(bytes) !== text) throw new Error("this is not base64 as it should be: " + String(text).slice(0, 60));
    return bytes;
  };
  const hex = (bytes) => [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
  const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const node = (left, right) => sha256(join([1], left, right));

  // RFC 8785: members in order of their UTF-16 units, no white space, numbers and
  // texts as JavaScript writes them.
  const canonical = (v) => {
    if (Array.isArray(v)) return "[" + v.map(canonical).join(",") + "]";
    if (v !== null && typeof v === "object") {
      return "{" + Object.keys(v).sort().map((k) => JSON.stringify(k) + ":" + canonical(v[k])).join(",") + "}";
    }
    return JSON.stringify(v);
  };

  // root is what a leaf and its inclusion proof come to in a tree of that size
  // (RFC 9162, 2.1.3.2). Null when the proof has not the length that it must have.
  const root = async (leaf, index, size, proof) => {
    let at = BigInt(index);
    let last = BigInt(size) - 1n;
    let hash = leaf;
    for (const other of proof) {
      if (last === 0n) return null;
      if (at & 1n || at === last) {
        hash = await node(other, hash);
        while (!(at & 1n) && at !== 0n) {
          at >>= 1n;
          last >>= 1n;
        }
      } else {
        hash = await node(hash, other);
      }
      at >>= 1n;
      last >>= 1n;
    }
    return last === 0n ? hash : null;
  };

  // parseKey reads name+hash+base64, and checks that the hash is that of the key.
  const parseKey = async (line) => {
    const at = line.indexOf("+");
    const next = line.indexOf("+", at + 1);
    if (at < 1 || next < 0) throw new Error("the public key is not of the form name+hash+base64");
    const name = line.slice(0, at);
    const bytes = fromBase64(line.slice(next + 1));
    if (bytes.length !== 33 || bytes[0] !== 1) throw new Error("the public key is not an Ed25519 key");
    const id = (await sha256(join(utf8.encode(name + "\n"), bytes))).slice(0, 4);
    if (hex(id) !== line.slice(at + 1, next)) throw new Error("the public key does not fit its own hash: a character of it is wrong");
    return { name, id, bytes: bytes.slice(1) };
  };

  // parseNote splits a signed note into its text and its signatures.
  const parseNote = (note) => {
    const at = note.lastIndexOf("\n\n");
    if (at < 0 || !note.endsWith("\n")) throw new Error("the checkpoint is no signed note");
    const text = note.slice(0, at + 1);
    const signatures = note.slice(at + 2, -1).split("\n").map((line) => {
      const parts = line.split(" ");
      if (parts.length !== 3 || parts[0] !== "\u2014") throw new Error("the checkpoint has a line that is no signature");
      return { name: parts[1], bytes: fromBase64(parts[2]) };
    });
    const lines = text.slice(0, -1).split("\n");
    if (lines.length < 3) throw new Error("the checkpoint has not its three lines");
    return { text, signatures, origin: lines[0], size: lines[1], root: lines[2] };
  };

  // What is shown: a step with a tick or a cross, and its values.
  const add = (parent, name, className, text) => {
    const el = document.createElement(name);
    if (className) el.className = className;
    if (text !== undefined) el.textContent = text;
    parent.append(el);
    return el;
  };
  const step = (state, title, values) => {
    const li = add(steps, "li", "step is-" + state);
    add(li, "span", "mark", { good: "✓", bad: "✕", none: "–" }[state]).setAttribute("aria-hidden", "true");
    const body = add(li, "div");
    const head = add(body, "p", "title", title);
    add(head, "span", "hidden", { good: " Right.", bad: " Wrong.", none: " Not checked." }[state]);
    for (const [label, value] of values || []) {
      const p = add(body, "p", "value");
      add(p, "span", "meta", label);
      add(p, "code", "digest", value);
    }
  };
  const say = (state, title, text) => {
    verdict.replaceChildren();
    const div = add(verdict, "div", "verdict-" + state);
    add(div, "strong", "", title);
    add(div, "p", "", text);
    box.dataset.verdict = state;
  };
  class Wrong extends Error {}
  // must shows a step, and ends the check at one that does not hold.
  const must = (holds, title, values) => {
    step(holds ? "good" : "bad", title, values);
    if (!holds) throw new Wrong();
  };

  // The key: given by the reader, remembered, or the server's own word.
  const memory = "holdpoint.log-key";
  const remembered = () => {
    try {
      return JSON.parse(localStorage.getItem(memory));
    } catch {
      return null;
    }
  };
  const originOf = (key) => {
    const kept = remembered();
    if (kept && kept.key === key) return "remembered";
    return serverKeys.includes(key) ? "server" : "given";
  };
  const explain = () => {
    const key = field.value.trim();
    const kept = remembered();
    const words = {
      remembered: () => "This browser has remembered this key since " + kept.since + ".",
      server: () => "This key comes from this server: a server that cheats would show its own. Paste the one that you were given another way.",
      given: () => "You have given this key.",
    };
    let text = key ? words[originOf(key)]() : "Without a key everything but the signature is checked.";
    if (kept && serverKeys.length && !serverKeys.includes(kept.key)) text += " It is not the key that this server states: ask why.";
    document.getElementById("key-origin").textContent = text;
    forget.hidden = !kept;
    form.elements.remember.closest("label").hidden = Boolean(kept && kept.key === key);
  };
  const start = () => {
    const kept = remembered();
    field.value = kept ? kept.key : serverKeys[0] || "";
    explain();
  };

  const subtle = () => {
    if (!globalThis.crypto || !crypto.subtle) {
      throw new Error("the browser gives its cryptography only to pages over HTTPS or from this machine, and this page is neither");
    }
  };

  // signed checks the log's own signature. It returns null where the browser has no
  // Ed25519.
  const signed = async (note, key) => {
    const own = note.signatures.filter((s) => s.name === key.name && same(s.bytes.slice(0, 4), key.id));
    if (own.length !== 1) return false;
    let imported = null;
    try {
      imported = await crypto.subtle.importKey("raw", key.bytes, { name: "Ed25519" }, false, ["verify"]);
    } catch {
      return null;
    }
    return crypto.subtle.verify({ name: "Ed25519" }, imported, own[0].bytes.slice(4), utf8.encode(note.text));
  };

  const fetchProof = async () => {
    const answer = await fetch(box.dataset.proof, { credentials: "same-origin", cache: "no-store", headers: { Accept: "application/json" } });
    let body = null;
    try {
      body = await answer.json();
    } catch {
      // said below
    }
    if (answer.ok && body) {
      step("good", "The server gives a proof", [["for the place ", String(body.leaf_index + 1) + " of " + String(body.tree_size)]]);
      return body;
    }
    const why = (body && body.detail) || "It answers " + answer.status + ".";
    if (body && (body.code === "event_changed" || body.code === "log_broken")) {
      step("bad", "The server itself says that the log does not have this event", [["it says ", why]]);
      throw new Wrong();
    }
    step("none", "The server gives no proof", [["it says ", why]]);
    throw new Error("there is no proof to check");
  };

  // entryOf is the leaf's data as text, however it was sent.
  const entryOf = (entry) => {
    if (typeof entry !== "string") return canonical(entry);
    return entry.startsWith("{") ? entry : new TextDecoder().decode(fromBase64(entry));
  };

  async function check() {
    subtle();
    const given = field.value.trim();
    const key = given ? await parseKey(given) : null;
    const proof = await fetchProof();

    const event = canonical(proof.event);
    must(event === box.dataset.document, "The event of the proof is the one on this page, to the byte", [["bytes ", String(utf8.encode(event).length)]]);

    const digest = "sha256:" + hex(await sha256(utf8.encode(event)));
    const index = proof.leaf_index;
    if (!Number.isSafeInteger(index) || !Number.isSafeInteger(proof.tree_size)) throw new Error("the proof has no place and no size");
    const entry = `{"digest":"${digest}","seq":${index + 1},"time":${JSON.stringify(proof.event.timestamp)},"v":1}`;
    must(entry === entryOf(proof.entry) && proof.event.seq === index + 1, "Its digest, its place and its time are those of the log’s entry", [["computed ", entry], ["the log has ", entryOf(proof.entry)]]);

    const leaf = await sha256(join([0], utf8.encode(entry)));
    must(toBase64(leaf) === proof.leaf_hash, "The entry’s hash is the leaf’s", [["computed ", toBase64(leaf)], ["the log has ", String(proof.leaf_hash)]]);

    const reached = await root(leaf, index, proof.tree_size, proof.proof.map(fromBase64));
    const shown = reached ? toBase64(reached) : "nothing: the proof has the wrong length";
    must(shown === proof.root, `From there ${proof.proof.length} hashes lead to the root of the tree`, [["computed ", shown], ["the log has ", String(proof.root)]]);

    const note = parseNote(proof.checkpoint);
    must(note.root === shown && note.size === String(proof.tree_size), "The checkpoint states this root and this size", [["log ", note.origin], ["size ", note.size], ["root ", note.root]]);

    if (!key) {
      step("none", "The checkpoint’s signature: there is no key to check it with");
      say("part", "Consistent, but not verified.", "The event is in the log that the checkpoint describes. Who signed the checkpoint was not checked: give the log’s public key.");
      return;
    }
    must(key.name === note.origin, "The key is the one of this log", [["key of ", key.name], ["log ", note.origin]]);
    const good = await signed(note, key);
    if (good === null) {
      step("none", "The checkpoint’s signature: this browser cannot check Ed25519");
      say("part", "Consistent, but not verified.", "Everything but the signature was checked. This browser knows no Ed25519: use a newer one, or the commands below.");
      return;
    }
    const origin = originOf(given);
    const how = {
      given: ["with the key that you gave", ""],
      remembered: ["with the key that this browser has remembered since " + (remembered() || {}).since, ""],
      server: ["with the key that this server states", " That is the weaker check: it shows that nothing was changed behind the server’s back, and not that the server is honest. Paste a key that you were given another way."],
    }[origin];
    must(good, "The log’s key has signed the checkpoint, " + how[0], [["key ", given]]);
    say(origin === "server" ? "fair" : "good", origin === "server" ? "Verified, by this server’s own key." : "Verified.", `This event is number ${index + 1} of ${proof.tree_size} in the log ${note.origin}, and nothing of it was changed since it was logged. Checked in this browser ${how[0]}.${how[1]}`);
    if (form.elements.remember.checked && origin !== "remembered") {
      localStorage.setItem(memory, JSON.stringify({ key: given, since: new Date().toISOString().slice(0, 10) }));
      form.elements.remember.checked = false;
    }
    explain();
  }

  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    const button = form.querySelector("button[type=submit]");
    button.disabled = true;
    steps.replaceChildren();
    verdict.replaceChildren();
    delete box.dataset.verdict;
    try {
      await check();
    } catch (err) {
      if (err instanceof Wrong) {
        say("bad", "Not verified.", "What is on this page is not what was signed. The first step with a cross says what does not fit. Keep this page, and tell whoever runs the log.");
      } else {
        say("none", "Not checked.", "The check could not be finished: " + err.message + ".");
      }
    } finally {
      button.disabled = false;
    }
  });
  forget.addEventListener("click", () => {
    localStorage.removeItem(memory);
    start();
    field.focus();
  });
  field.addEventListener("input", explain);
  form.hidden = false;
  start();
})();
