// Holdpoint console: a vote is held for a moment before it is sent, and a palette leads
// everywhere. It comes before console.js, whose handlers see a held form only when it is
// sent.
(() => {
  "use strict";
  const say = (text) => {
    const el = document.getElementById("announce");
    if (el) el.textContent = text;
  };

  // What is said beside the buttons.
  const promise = () => {
    for (const el of document.querySelectorAll("[data-hold-note]")) {
      el.dataset.held ||= el.textContent;
      el.textContent = atOnce() || urgent() ? "Sent at once. There is no undo." : el.dataset.held;
    }
  };

  // The hold. A form marked data-hold waits that many seconds, in which it can be taken
  // back. It is sent when the time is up, when its sender says so, and when they leave:
  // whatever they do, but taking it back, it is sent.
  const preference = "holdpoint-send-at-once";
  const atOnce = () => {
    try {
      return localStorage.getItem(preference) === "yes";
    } catch {
      return false; // no storage: the hold stays
    }
  };
  const prefer = (yes) => {
    try {
      if (yes) localStorage.setItem(preference, "yes");
      else localStorage.removeItem(preference);
    } catch {
      say("This browser does not keep that.");
    }
    promise();
  };
  let held = null; // {form, button, until, timer, sent}
  const bar = () => document.getElementById("hold");

  const end = () => {
    clearInterval(held.timer);
    held.form.inert = false;
    bar().hidden = true;
  };
  // send submits the form as if its button had been pressed now.
  const send = () => {
    const { form, button } = held;
    end();
    held = null;
    form.dataset.held = "done";
    form.requestSubmit(button);
  };
  const undo = () => {
    if (held.sent) return;
    const { button, words } = held;
    end();
    held = null;
    button.focus();
    say(`“${words}” was taken back. Nothing was sent.`);
  };
  // post sends what is held without the page, and answers whether it was taken.
  const post = async () => {
    const { form, button } = held;
    held.sent = true;
    clearInterval(held.timer);
    const body = new URLSearchParams(new FormData(form, button));
    try {
      const answer = await fetch(form.action, { method: "POST", body, credentials: "same-origin", keepalive: true, redirect: "manual" });
      return answer.status === 204;
    } catch {
      return false;
    }
  };
  const hold = (form, button) => {
    const seconds = Number(form.dataset.hold);
    const kind = button.value === "deny" && form.querySelector("select[name=kind]");
    const about = [kind && kind.selectedOptions[0].textContent, form.querySelector("[data-hold-sum]")?.textContent].filter(Boolean);
    const what = button.textContent.trim() + about.map((text) => ` (${text.replace(/\s+/g, " ").trim()})`).join("");
    held = { form, button, words: what, until: Date.now() + seconds * 1000, sent: false };
    const words = bar().querySelector("[data-hold-words]");
    const tick = () => {
      const left = Math.ceil((held.until - Date.now()) / 1000);
      if (left <= 0) send();
      else words.textContent = `“${held.words}” is sent in ${left} s`;
    };
    form.inert = true;
    bar().hidden = false;
    tick();
    held.timer = setInterval(tick, 200);
    const now = bar().querySelector("[data-hold-now]");
    held.from = Date.now();
    now.focus();
    bar().scrollIntoView({ block: "nearest" });
    say(`“${held.words}” is sent in ${seconds} seconds. Z takes it back.`);
  };

  // Nothing is held into the last minute of its call, by the server's clock.
  const skew = Date.parse(document.body.dataset.now) - Date.now() || 0;
  const urgent = () => {
    const due = [...document.querySelectorAll("#statusline [data-countdown], [data-hold] [data-countdown]")].map((el) => Date.parse(el.dataset.countdown));
    return due.some((at) => at - (Date.now() + skew) < 60000);
  };
  promise();
  setInterval(promise, 1000);

  // Another form goes once the vote is taken; else the page says what became of it. The
  // form of the vote stays shut: it is sent.
  const after = async (form, button) => {
    if (held.sent) return;
    if (!await post()) {
      send();
      return;
    }
    bar().hidden = true;
    held = null;
    if (form.isConnected) form.requestSubmit(button);
    else location.reload(); // the page has moved on meanwhile
  };

  document.addEventListener("submit", (e) => {
    const form = e.target;
    if (held && !form.matches("[data-hold], [method=dialog]")) {
      e.preventDefault();
      e.stopImmediatePropagation();
      after(form, e.submitter);
      return;
    }
    if (!form.matches("[data-hold]") || urgent() || form.dataset.held || e.submitter?.name !== "decision" || !bar() || atOnce()) return;
    e.preventDefault();
    e.stopImmediatePropagation();
    if (!held) hold(form, e.submitter);
  }, true);
  document.addEventListener("click", async (e) => {
    if (!held) return;
    if (held.sent) e.preventDefault();
    else if (e.target.closest("[data-hold-undo]")) undo();
    else if (e.target.closest("[data-hold-now]")) send();
    else if (e.target.closest("[data-hold-off]")) {
      prefer(true);
      send();
    } else {
      // A link is followed once the vote is taken; else the page says what became of it.
      const link = e.target.closest("a[href]");
      if (!link || link.target || link.download || e.button || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
      e.preventDefault();
      e.stopImmediatePropagation();
      if (await post()) location.assign(link.href);
      else send();
    }
  }, true);
  // The key that has pressed the button, still held or pressed twice, sends nothing. A
  // button is pressed by Enter when it goes down, and by Space when it comes up.
  let early = false;
  document.addEventListener("keyup", (e) => {
    if (early && e.key === " ") e.preventDefault();
    early = false;
  }, true);
  document.addEventListener("keydown", (e) => {
    if (!held) return;
    if ((e.key === "Enter" || e.key === " ") && e.target.closest("[data-hold-now]")) {
      early = e.repeat || Date.now() - held.from < 400;
      if (early) e.preventDefault();
    } else if ((e.key === "z" || e.key === "Escape") && !e.ctrlKey && !e.metaKey && !e.altKey && !e.target.matches("input, textarea, select")) {
      e.preventDefault();
      e.stopImmediatePropagation();
      undo();
    }
  }, true);
  // Who leaves sends it. A page that is only hidden may never be looked at again; when it
  // is, it says what became of the vote.
  const leave = async () => {
    if (!held || held.sent || held.form.dataset.held) return;
    if (await post()) location.reload();
    else send();
  };
  window.addEventListener("pagehide", leave);
  document.addEventListener("visibilitychange", () => { if (document.hidden) leave(); });

  // Escape leaves a field for the keys of the page; in a search it empties it first.
  document.addEventListener("keydown", (e) => {
    const field = document.activeElement;
    if (e.key !== "Escape" || e.defaultPrevented || e.isComposing || !field.matches("textarea, input, select") || field.closest("dialog") || field.type === "search" && field.value) return;
    field.blur();
  });

  // The sum of the calls that are ticked, to be decided together: as stakes.Total has it.
  const sum = document.querySelector("[data-hold-sum]");
  const boxes = [...document.querySelectorAll("[data-sum]")];
  const total = (amounts) => {
    const sums = new Map();
    let [without, unnamed] = [0, 0];
    for (const amount of amounts) {
      const [, sign, whole, fraction = "", code] = /^(-?)([\d,]+)(?:\.(\d+))?(?: (.+))?$/.exec(amount) || [];
      if (whole === undefined) {
        without++;
        continue;
      }
      if (!code) {
        unnamed++; // perhaps of several currencies
        continue;
      }
      const known = sums.get(code.toUpperCase()) || { value: 0n, digits: 0 };
      const digits = Math.max(known.digits, fraction.length);
      const value = BigInt(sign + whole.replaceAll(",", "") + fraction.padEnd(digits, "0"));
      sums.set(code.toUpperCase(), { value: known.value * 10n ** BigInt(digits - known.digits) + value, digits });
    }
    const texts = [...sums].sort().map(([code, { value, digits }]) => {
      const all = String(value < 0n ? -value : value).padStart(digits + 1, "0");
      const whole = all.slice(0, all.length - digits).replace(/\B(?=(\d{3})+$)/g, ",");
      return `${value < 0n ? "-" : ""}${whole}${digits ? "." + all.slice(-digits) : ""} ${code}`;
    });
    const parts = texts.length ? [`${texts.join(" + ")} in all`] : [];
    if (unnamed) parts.push(`${unnamed} ${unnamed === 1 ? "amount" : "amounts"} without a currency`);
    if (without && parts.length) parts.push(`${without} without an amount`);
    return parts.length ? ` · ${parts.join(", and ")}` : "";
  };
  const add = () => {
    const on = boxes.filter((box) => box.checked);
    const each = (name, text) => { for (const el of document.querySelectorAll(`[${name}]`)) el.textContent = text; };
    each("data-sum-calls", on.length === boxes.length ? `${on.length} calls` : `${on.length} of ${boxes.length} calls`);
    each("data-sum-total", total(on.map((box) => box.dataset.sum)));
    each("data-sum-all", on.length === boxes.length ? "all" : String(on.length));
  };
  if (sum) {
    add();
    for (const box of boxes) box.addEventListener("change", add);
    window.addEventListener("pageshow", add); // a browser that goes back ticks as it was
  }

  // The palette: pages, views and what can be done on the page, found by a few letters.
  // All of it is on the page already. Links are followed; a button gets the focus, so that
  // nothing is decided by a name.
  const palette = document.getElementById("palette");
  const field = document.getElementById("palette-q");
  const list = document.getElementById("palette-list");
  let entries = [];
  let at = 0;
  const seen = (el) => (el.checkVisibility ? el.checkVisibility() : el.offsetParent !== null);
  const text = (el) => (el.dataset.name || el.getAttribute("aria-label") || el.textContent).replace(/\s+/g, " ").trim();
  const collect = () => {
    const found = [];
    const add = (group, el, name = text(el)) => {
      if (name && !found.some((f) => f.name === name && f.group === group)) found.push({ group, el, name });
    };
    const main = document.getElementById("main");
    for (const el of main.querySelectorAll("button[name=decision]")) {
      if (!el.disabled && seen(el)) add("On this page", el);
    }
    for (const el of main.querySelectorAll("a.button, button, summary, a[data-testid]")) {
      if (!el.disabled && !el.closest("[data-row], dialog, .seen, [inert], nav, table") && seen(el)) add("On this page", el);
    }
    for (const el of document.querySelectorAll(".top nav a, .who a")) add("Pages", el);
    for (const el of main.querySelectorAll("[data-testid=saved-views] a, .subnav a")) add("Views", el);
    for (const el of main.querySelectorAll("[data-testid=chips] a, #inbox-head a")) add("Filters", el);
    for (const el of main.querySelectorAll("[data-row] a.row")) {
      add("Calls", el, [el.querySelector(".tool"), el.querySelector(".sentence")].filter(Boolean).map(text).join(": "));
    }
    const keys = document.getElementById("keys");
    found.push({ group: "Help", name: "All keys", run: () => keys.showModal() });
    found.push(atOnce()
      ? { group: "Help", name: "Hold votes for a moment before they are sent", run: () => { prefer(false); say("Votes are held for a moment from now on."); } }
      : { group: "Help", name: "Send votes at once", run: () => { prefer(true); say("Votes are sent at once from now on."); } });
    return found;
  };
  const mark = (i) => {
    const options = [...list.querySelectorAll("[role=option]")];
    at = Math.max(0, Math.min(i, options.length - 1));
    for (const [n, o] of options.entries()) o.setAttribute("aria-selected", String(n === at));
    if (options[at]) {
      field.setAttribute("aria-activedescendant", options[at].id);
      options[at].scrollIntoView({ block: "nearest" });
    } else {
      field.removeAttribute("aria-activedescendant");
    }
  };
  const most = 40;
  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    // What begins so comes first, and of that the shortest name.
    const rank = (f) => (words.length && f.name.toLowerCase().startsWith(words[0]) ? f.name.length : 1000);
    const fit = entries.filter((f) => words.every((w) => `${f.group} ${f.name}`.toLowerCase().includes(w))).sort((a, b) => rank(a) - rank(b)).slice(0, most);
    list.replaceChildren(...fit.map((f, i) => {
      const li = document.createElement("li");
      li.id = `palette-${i}`;
      li.setAttribute("role", "option");
      const group = document.createElement("span");
      group.className = "meta";
      group.textContent = f.group;
      const name = document.createElement("span");
      name.textContent = f.name;
      li.append(name, group);
      li.addEventListener("click", () => run(f));
      return li;
    }));
    document.getElementById("palette-count").textContent = fit.length === 1 ? "1 entry" : `${fit.length} entries`;
    palette.entries = fit;
    mark(0);
  };
  const run = (f) => {
    palette.close();
    if (f.run) f.run();
    else if (f.el.matches("a[href]")) f.el.click();
    else {
      if (f.el.matches("summary") && !f.el.parentElement.open) f.el.click();
      f.el.focus();
      f.el.scrollIntoView({ block: "nearest" });
    }
  };
  if (palette) {
    document.addEventListener("keydown", (e) => {
      if (e.key.toLowerCase() !== "k" || !(e.ctrlKey || e.metaKey) || e.shiftKey || e.altKey || held) return;
      e.preventDefault();
      if (palette.open) {
        palette.close();
        return;
      }
      for (const other of document.querySelectorAll("dialog[open]")) other.close();
      entries = collect();
      field.value = "";
      palette.showModal();
      show();
    });
    field.addEventListener("input", show);
    field.addEventListener("keydown", (e) => {
      if (e.key === "ArrowDown") mark(at + 1);
      else if (e.key === "ArrowUp") mark(at - 1);
      else if (e.key !== "Enter") return;
      e.preventDefault();
    });
    // Once the key is up: what gets the focus is not pressed by the same key.
    field.addEventListener("keyup", (e) => {
      if (e.key === "Enter" && palette.entries[at]) run(palette.entries[at]);
    });
  }
})();
