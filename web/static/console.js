// Holdpoint console. Everything here only adds to pages that work without it:
// it counts deadlines down, writes times in the reader's zone, looks again when
// the server says that something changed, keeps what is being written, and moves
// the focus by keys. It never sends a form by itself.
(() => {
  "use strict";
  const root = document.documentElement;
  const body = document.body;
  root.classList.add("js");

  // What is there for pages without script is none of this one.
  const scripted = (page) => {
    for (const el of page.querySelectorAll(".unscripted")) el.remove();
    return page;
  };
  scripted(document);

  // The server's clock decides; the reader's may be wrong.
  let skew = Date.parse(body.dataset.now) - Date.now();
  const now = () => Date.now() + skew;

  // The same words as views.Until.
  const until = (ms) => {
    const s = Math.floor(ms / 1000);
    const two = (n) => String(n).padStart(2, "0");
    if (ms <= 0) return "deadline passed";
    if (s < 60) return `in ${Math.max(s, 1)} s`;
    if (s < 600) return `in ${Math.floor(s / 60)} min ${two(s % 60)} s`;
    if (s < 3600) return `in ${Math.floor(s / 60)} min`;
    if (s < 48 * 3600) return `in ${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
    const days = Math.floor(s / 86400), hours = Math.floor(s / 3600) % 24;
    if (days >= 730) return `in ${Math.floor(days / 365)} years`;
    return hours === 0 || days >= 7 ? `in ${days} days` : `in ${days} days ${hours} h`;
  };
  const tick = () => {
    for (const el of document.querySelectorAll("[data-countdown]")) {
      const left = Date.parse(el.dataset.countdown) - now();
      const text = until(left);
      if (el.textContent !== text) el.textContent = text;
      el.parentElement.classList.toggle("soon", left < 600000);
      if (left <= 0 && !el.dataset.up) {
        el.dataset.up = "1";
        setTimeout(look, 1500);
      }
    }
    lapse();
  };
  // The same form as views.Clock and views.ClockSeconds, in the reader's own zone:
  // "26 Nov 2026, 02:19 UTC". Only the zone's name is the browser's.
  const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const zoned = new Intl.DateTimeFormat("en-GB", { hour: "numeric", timeZoneName: "short" });
  const clock = (t, seconds) => {
    const two = (n) => String(n).padStart(2, "0");
    const zone = zoned.formatToParts(t).find((p) => p.type === "timeZoneName").value;
    return `${t.getDate()} ${months[t.getMonth()]} ${t.getFullYear()}, ${two(t.getHours())}:${two(t.getMinutes())}` +
      `${seconds ? `:${two(t.getSeconds())}` : ""} ${zone}`;
  };
  // Times of records stay in UTC, as everybody else reads them.
  const localTimes = () => {
    for (const el of document.querySelectorAll("time[data-utc]:not([data-local])")) {
      const t = new Date(el.dateTime);
      if (isNaN(t)) continue;
      el.dataset.local = "1";
      el.title = `${clock(t, true)}, where you are`;
    }
    for (const el of document.querySelectorAll("time[datetime]:not([data-local])")) {
      const t = new Date(el.dateTime);
      if (isNaN(t)) continue;
      el.dataset.local = "1";
      el.textContent = clock(t);
    }
  };

  // A page that answers a form has the form's address: this is where it is found again.
  const here = document.querySelector("[data-here]")?.dataset.here;
  if (here && location.pathname !== here) history.replaceState(null, "", here);

  // After the proof's time the page offers something else: the server says what.
  // While it does not answer, or says that the proof still counts, it is asked again.
  let lapsed = 0;
  const lapse = () => {
    const until = document.querySelector("[data-proved-until]")?.dataset.provedUntil;
    if (!until || Date.parse(until) >= now() || Date.now() < lapsed || document.getElementById("changed")?.hidden === false) return;
    lapsed = Date.now() + 5000;
    look();
  };

  const announce = (text) => {
    const el = document.getElementById("announce");
    if (el && el.textContent !== text) el.textContent = text;
  };

  // Calls that are ticked are decided together. A row that comes anew keeps its tick.
  const ticked = (within) => [...within.querySelectorAll("[data-pick]:checked")].map((box) => box.value);
  const tally = () => {
    const bar = document.getElementById("pick-form");
    if (!bar) return;
    const n = ticked(document).length;
    const words = bar.querySelector("[data-picked]");
    words.dataset.none ||= words.textContent;
    words.textContent = n === 0 ? words.dataset.none : n === 1 ? "1 call is ticked" : `${n} calls are ticked`;
    for (const button of bar.querySelectorAll("[data-least]")) button.disabled = n < Number(button.dataset.least);
    bar.classList.toggle("some", n > 0);
  };
  document.addEventListener("change", (e) => {
    if (!e.target.matches("[data-pick]")) return;
    tally();
    announce(document.querySelector("[data-picked]")?.textContent || "");
  });
  window.addEventListener("pageshow", tally); // a browser that goes back ticks as it was
  document.addEventListener("click", (e) => {
    if (!e.target.closest("[data-pick-all]")) return;
    const boxes = [...document.querySelectorAll("[data-pick]")];
    const all = boxes.every((box) => box.checked);
    for (const box of boxes) box.checked = !all;
    tally();
    announce(document.querySelector("[data-picked]").textContent);
  });

  // swap takes the parts marked data-swap from a fresh copy of the page. What
  // has the focus keeps it.
  const swap = (fresh) => {
    let said = "";
    for (const old of document.querySelectorAll("[data-swap]")) {
      // What is evidence has no ids: it is named by the attribute itself.
      const next = old.dataset.swap ? fresh.querySelector(`[data-swap="${old.dataset.swap}"]`) : fresh.getElementById(old.id);
      if (!next) continue;
      if (next.dataset.say && next.dataset.say !== old.dataset.say) said = next.dataset.say;
      const focused = document.activeElement;
      const key = old.contains(focused) ? focused.dataset.key : undefined;
      const known = new Set([...old.querySelectorAll("[data-key]")].map((el) => el.dataset.key));
      const node = document.importNode(next, true);
      for (const el of node.querySelectorAll("[data-key]")) {
        if (!known.has(el.dataset.key)) el.parentElement.classList.add("new");
      }
      for (const box of node.querySelectorAll("[data-pick]")) box.checked = ticked(old).includes(box.value);
      old.replaceWith(node);
      if (key) {
        const links = [...node.querySelectorAll("[data-key]")];
        const same = links.find((el) => el.dataset.key === key) || links[0];
        if (same) same.focus({ preventScroll: true });
        else document.getElementById("main").focus({ preventScroll: true });
      }
    }
    decision(fresh);
    keep(fresh);
    tally();
    document.title = fresh.title;
    body.dataset.live = fresh.body.dataset.live || "";
    if (fresh.body.dataset.now) skew = Date.parse(fresh.body.dataset.now) - Date.now();
    localTimes();
    tick();
    if (said) announce(said);
  };

  // rows takes what has changed of the inbox, and nothing else. A list that has become
  // another one than the server thinks is fetched whole.
  const rows = (change) => {
    const list = document.getElementById("inbox-rows");
    if (!list) {
      look();
      return;
    }
    const row = (id) => [...list.children].find((el) => el.dataset.row === id);
    const part = (html) => document.importNode(new DOMParser().parseFromString(html, "text/html").body.firstElementChild, true);
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    const place = [...list.children].indexOf(row(focused));
    for (const id of change.drop || []) row(id)?.remove();
    for (const put of change.put || []) {
      const old = row(put.id);
      old?.remove();
      const next = part(put.html);
      const box = next.querySelector("[data-pick]");
      if (box) box.checked = Boolean(old?.querySelector("[data-pick]")?.checked);
      if (!old) next.classList.add("new");
      if (put.after) row(put.after)?.after(next);
      else list.prepend(next);
    }
    document.getElementById("inbox-head").replaceWith(part(change.head));
    document.getElementById("inbox-pager").replaceWith(part(change.pager));
    tally();
    if (list.children.length !== change.rows) {
      look();
      return;
    }
    // The focus stays on its row; where that is gone, on the one in its place.
    if (focused) {
      const stay = row(focused) || list.children[Math.min(place, list.children.length - 1)];
      stay.querySelector("[data-key]").focus({ preventScroll: true });
    }
    document.title = change.title;
    const region = document.getElementById("rows");
    if (region.dataset.say !== change.say) announce(change.say);
    region.dataset.say = change.say;
    localTimes();
    tick();
  };

  // decision replaces the form only when what the reader may do has changed, and
  // keeps what has been written. A card that shows other arguments than the ones
  // on this screen never gets into this form: the reader has to load it.
  const decision = (fresh) => {
    const card = document.querySelector("[data-card]");
    const other = fresh.querySelector("[data-card]");
    const old = document.getElementById("decide");
    const next = fresh.getElementById("decide");
    // A vote that is held is on the card as its sender saw it: the server judges it by that.
    if (!card || !other || !old || !next || document.getElementById("hold")?.hidden === false) return;
    const changed = card.dataset.version !== other.dataset.version || card.dataset.digest !== other.dataset.digest;
    // Whoever has changed the arguments has none to decide, and still the old ones
    // on the screen.
    if (changed && (next.dataset.mode !== "none" || card.dataset.digest !== other.dataset.digest)) {
      document.getElementById("changed").hidden = false;
      for (const b of document.querySelectorAll("#decide button, [data-keep] button")) b.disabled = true;
      announce("This card has changed since you opened it.");
      return;
    }
    card.dataset.provedUntil = other.dataset.provedUntil || "";
    if (next.dataset.mode === old.dataset.mode && next.dataset.mode !== "none") return;
    const written = old.querySelector("textarea[name=comment]") || old.querySelector("textarea");
    const had = old.contains(document.activeElement) ? document.activeElement : null;
    const node = document.importNode(next, true);
    const area = node.querySelector("textarea");
    if (written) {
      if (area) {
        transfer(old, node);
      } else if (written.value) {
        const label = document.createElement("label");
        const words = document.createElement("span");
        words.textContent = "What you had written, to copy";
        const kept = document.createElement("textarea");
        kept.rows = 3;
        kept.readOnly = true;
        kept.value = written.value;
        label.append(words, kept);
        node.append(label);
      }
    }
    old.replaceWith(node);
    if (!had) return;
    const same = had.name ? node.querySelector(`[name="${had.name}"]:not([type=hidden])`) : null;
    const to = same || area || document.getElementById("main");
    to.focus({ preventScroll: true });
    if (same && same.matches("textarea") && had.matches("textarea")) same.setSelectionRange(had.selectionStart, had.selectionEnd);
  };

  // transfer writes what is in the fields of one part into those of another.
  const transfer = (from, to) => {
    for (const field of from.querySelectorAll(fields)) {
      const same = to.querySelector(`[name="${field.name}"]`);
      if (!same || same.type !== field.type) continue;
      same.value = field.value;
      if (field.closest("details")?.open && same.closest("details")) same.closest("details").open = true;
    }
  };

  // Drafts. What is written into a form marked data-draft goes to the server while one
  // writes, and is there again when the page is opened again. Codes, passwords and
  // what passkeys say are no part of it.
  const fields = "textarea[name]:not([readonly]), select[name], input[name]:not([type=hidden]):not([type=password]):not([type=radio]):not([type=checkbox]):not([autocomplete=one-time-code])";
  const formName = (form) => new URL(form.action).pathname.split("/").pop();
  const drafted = () => [...document.querySelectorAll("form[data-draft]")];
  // What the server has no copy of yet, by the names of forms, and the request under way.
  const unsaved = new Set();
  let saving = null;
  let soon = 0;
  let failing = false;
  let out = "";
  // How many bytes browsers send on after the page has gone, of 64 KiB in all; how many
  // the server reads; and the statuses that refuse words which their writer can change.
  const outlives = 60000;
  const most = 1 << 20;
  const unkept = [400, 413, 422];
  const draft = (forms) => {
    const body = new URLSearchParams();
    const writer = forms[0].querySelector("input[name=writer]");
    if (writer) body.append("writer", writer.value);
    for (const form of forms) {
      const name = formName(form);
      body.append("form", name);
      for (const field of form.querySelectorAll(fields + ", input[type=radio]:checked, input[type=hidden][name=digest], input[type=hidden][name=shown]")) body.append(`${name}:${field.name}`, field.value);
    }
    return body;
  };
  const draftAddress = (form) => form.action.replace(/[^/]+$/, "draft");
  const note = (forms, text) => {
    for (const form of forms) {
      const el = form.querySelector("[data-draft-note]");
      if (el) el.textContent = text;
    }
  };
  // save sends what is unsaved, one request at a time, and answers when the server has
  // answered. What cannot be kept now is tried again.
  const save = async (leaving) => {
    clearTimeout(soon);
    if (saving) await saving;
    const forms = drafted().filter((form) => unsaved.has(formName(form)));
    if (!forms.length || out) return;
    for (const form of forms) unsaved.delete(formName(form));
    const again = (text) => {
      for (const form of forms) unsaved.add(formName(form));
      note(forms, text);
      announce(text);
      failing = true;
      soon = setTimeout(save, 5000);
    };
    // What is refused is not sent again before it is changed.
    const refused = (why, changeable) => {
      const text = "Not saved as a draft: " + why;
      note(forms, text);
      announce(text);
      failing = changeable;
    };
    const body = draft(forms);
    const bytes = body.toString().length;
    const small = bytes < outlives;
    if (bytes > most) {
      refused("it is more than the server keeps.", true);
      return;
    }
    if (leaving === true && !small) failing = true;
    saving = (async () => {
      try {
        const answer = await fetch(draftAddress(forms[0]), {
          method: "POST", body, credentials: "same-origin", keepalive: leaving === true && small, headers: { Accept: "application/json" }, signal: AbortSignal.timeout(10000),
        });
        failing = false;
        if (answer.redirected) signedOut(answer.url);
        else if (answer.ok) note(forms, "Saved as a draft.");
        else if (answer.status >= 500 || answer.status === 429) again("Not saved yet. It is tried again.");
        else refused((await answer.json().catch(() => ({}))).detail || `the server refuses it (${answer.status}).`, unkept.includes(answer.status));
      } catch {
        again("Not saved yet: the server cannot be reached.");
      } finally {
        saving = null;
      }
    })();
    await saving;
  };
  const writes = (e) => {
    const form = e.target.closest("form[data-draft]");
    if (!form || !e.target.matches(fields + ", input[type=radio]")) return;
    unsaved.add(formName(form));
    clearTimeout(soon);
    soon = setTimeout(save, 400);
  };
  document.addEventListener("input", writes);
  document.addEventListener("change", writes);
  // Whoever leaves with words that the server has not is asked whether they want to.
  let going = false;
  window.addEventListener("beforeunload", (e) => {
    save(true);
    if (!going && (failing || document.getElementById("signed-out")?.hidden === false)) e.preventDefault();
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden) save(true); });
  // A link is followed once what is written is kept.
  document.addEventListener("click", async (e) => {
    const link = e.target.closest("a[href]");
    if (!link || link.target || link.download || e.defaultPrevented || e.button || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey || link.origin !== location.origin || !(unsaved.size || saving)) return;
    e.preventDefault();
    await save();
    location.assign(link.href);
  });
  // A form is sent once nothing of it is on its way as a draft: what was sent is none.
  document.addEventListener("submit", async (e) => {
    const form = e.target;
    if (!form.matches("form[data-draft]")) return;
    clearTimeout(soon);
    if (!saving) {
      going = true;
      unsaved.delete(formName(form));
      return;
    }
    e.preventDefault();
    e.stopImmediatePropagation();
    if (form.dataset.waits) return;
    form.dataset.waits = "1";
    await saving;
    delete form.dataset.waits;
    form.requestSubmit(e.submitter);
  }, true);

  // signedOut leaves for the page to sign in on, unless that would lose words: then the
  // reader goes there with them.
  const signedOut = (address) => {
    stop();
    out = address;
    const banner = document.getElementById("signed-out");
    const written = drafted().some((form) => [...form.querySelectorAll(fields)].some((field) => !field.matches("select") && field.value !== ""));
    if (!written || !banner) {
      location.assign(address);
      return;
    }
    banner.hidden = false;
    announce("You have been signed out. What you have written stays here.");
  };
  document.addEventListener("click", (e) => {
    if (!e.target.closest("[data-sign-in-again]")) return;
    const forms = drafted();
    const form = document.createElement("form");
    form.method = "post";
    form.action = draftAddress(forms[0]);
    for (const [name, value] of draft(forms)) {
      const field = document.createElement("input");
      field.type = "hidden";
      field.name = name;
      field.value = value;
      form.append(field);
    }
    document.body.append(form);
    going = true;
    form.submit();
  });

  // keep replaces the parts that offer something else than they did, but for those
  // in which the reader is or has written: the server knows what still holds.
  const keep = (fresh) => {
    if (!document.getElementById("changed")?.hidden) return;
    for (const old of document.querySelectorAll("[data-keep]")) {
      const next = fresh.getElementById(old.id);
      if (!next || next.dataset.mode === old.dataset.mode) continue;
      const written = [...old.querySelectorAll("textarea, input:not([type=hidden]):not([type=radio])")].some((el) => el.value !== "");
      if (written || old.contains(document.activeElement)) continue;
      old.replaceWith(document.importNode(next, true));
    }
  };

  // look fetches this page again, one at a time and at most once a second.
  let looking = false;
  let again = false;
  async function look() {
    if (out) return;
    if (looking) {
      again = true;
      return;
    }
    looking = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", cache: "no-store", headers: { Accept: "text/html" } });
      if (answer.redirected && new URL(answer.url).pathname === "/login") {
        signedOut(answer.url);
        return;
      }
      if (answer.ok) swap(scripted(new DOMParser().parseFromString(await answer.text(), "text/html")));
    } catch {
      // The server is away. The stream's reconnection looks again.
    } finally {
      setTimeout(() => {
        looking = false;
        if (again) {
          again = false;
          look();
        }
      }, 1000);
    }
  }

  // The event stream. It rests while nobody looks at the page, so that many open
  // tabs do not use up the browser's connections.
  let source = null;
  let retry = 1000;
  let timer = 0;
  const stop = () => {
    clearTimeout(timer);
    if (source) source.close();
    source = null;
  };
  const start = () => {
    if (out || source || !body.dataset.live || document.hidden) return;
    source = new EventSource(body.dataset.live);
    source.addEventListener("open", () => { retry = 1000; });
    source.addEventListener("changed", look);
    source.addEventListener("rows", (e) => rows(JSON.parse(e.data)));
    source.addEventListener("error", () => {
      stop();
      timer = setTimeout(async () => {
        await look();
        start();
      }, retry);
      retry = Math.min(retry * 2, 30000);
    });
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      stop();
    } else if (body.dataset.live) {
      look();
      start();
    }
  });

  // Keys move the focus, open the call that has it, or say what keys there are.
  document.addEventListener("keydown", (e) => {
    if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || document.activeElement.matches("input:not([data-pick]), textarea, select, summary")) return;
    const all = [...document.querySelectorAll(".rows [data-key]")];
    const row = document.activeElement.closest("[data-row]");
    const at = row ? all.findIndex((el) => row.contains(el)) : all.indexOf(document.activeElement);
    let to = null;
    if (e.key === "j") to = all[Math.min(at + 1, all.length - 1)] || document.querySelector("[data-next]");
    else if (e.key === "k") to = all[Math.max(at - 1, 0)];
    else if (e.key === "x" && row?.querySelector("[data-pick]")) {
      e.preventDefault();
      row.querySelector("[data-pick]").click();
      return;
    } else if (e.key === "/") to = document.getElementById("inbox-q");
    else if (e.key === "o" && at >= 0) {
      e.preventDefault();
      all[at].click();
      return;
    } else if (e.key === "?" && document.getElementById("keys")) {
      e.preventDefault();
      document.getElementById("keys").showModal();
      return;
    } else if (e.key === "c") to = document.querySelector("[data-testid=comment]");
    else if (e.key === "e") to = document.querySelector("[data-testid=edit]");
    else if (e.key === "a") to = document.querySelector("[data-testid=approve]:enabled");
    else if (e.key === "d") to = document.querySelector("[data-testid=deny]:enabled");
    if (!to) return;
    e.preventDefault();
    to.focus();
    to.scrollIntoView({ block: "nearest" });
  });

  // The key that has sent a vote, held or pressed twice, does not open the next call too.
  setTimeout(() => { root.dataset.settled = "1"; }, 500);
  document.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && e.target.closest("[data-next]") && (e.repeat || !root.dataset.settled)) e.preventDefault();
  });

  // One press, one vote: the pressed button's value is read before it goes grey.
  document.addEventListener("submit", (e) => {
    if (!e.target.matches("[data-vote], [data-once]")) return;
    stop();
    setTimeout(() => {
      for (const b of e.target.querySelectorAll("button")) b.disabled = true;
    }, 0);
  });

  // What a small screen has no room for is folded away, unless it says what is wrong.
  if (window.matchMedia("(max-width: 40rem)").matches) {
    for (const el of document.querySelectorAll("details[data-roomy]")) el.open = el.querySelector("[aria-invalid]") !== null;
  }

  // What is shown once is copied by a button, where the browser lets it.
  for (const button of navigator.clipboard ? document.querySelectorAll("[data-copy]") : []) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
      announce("Copied");
    });
  }

  // Tabs that do not fit are in a row that scrolls: the one that is open is in sight.
  document.querySelector(".subnav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  localTimes();
  tally();
  tick();
  setInterval(tick, 1000);
  start();
})();
