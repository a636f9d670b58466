// Holdpoint console. Everything here only adds to pages that work without it:
// it counts deadlines down, writes times in the reader's zone, looks again when
// the server says that something changed, and moves the focus by keys. It
// never sends a form.
(() => {
  "use strict";
  const root = document.documentElement;
  const body = document.body;
  root.classList.add("js");

  // The server's clock decides; the reader's may be wrong.
  let skew = Date.parse(body.dataset.now) - Date.now();
  const now = () => Date.now() + skew;

  // The same words as views.Until.
  const until = (ms) => {
    const s = Math.floor(ms / 1000);
    const two = (n) => String(n).padStart(2, "0");
    if (ms <= 0) return "time is up";
    if (s < 60) return `in ${Math.max(s, 1)} s`;
    if (s < 600) return `in ${Math.floor(s / 60)} min ${two(s % 60)} s`;
    if (s < 3600) return `in ${Math.floor(s / 60)} min`;
    if (s < 48 * 3600) return `in ${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
    return `in ${Math.floor(s / 86400)} days`;
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
  };
  const parts = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", timeZoneName: "short" };
  const thisYear = new Intl.DateTimeFormat(undefined, parts);
  const anyYear = new Intl.DateTimeFormat(undefined, { ...parts, year: "numeric" });
  // The audit log's times stay in UTC, as everybody else reads them.
  const exact = new Intl.DateTimeFormat(undefined, { ...parts, year: "numeric", second: "2-digit" });
  const localTimes = () => {
    for (const el of document.querySelectorAll("time[data-utc]:not([data-local])")) {
      const t = new Date(el.dateTime);
      if (isNaN(t)) continue;
      el.dataset.local = "1";
      el.title = `${exact.format(t)}, where you are`;
    }
    for (const el of document.querySelectorAll("time[datetime]:not([data-local])")) {
      const t = new Date(el.dateTime);
      if (isNaN(t)) continue;
      el.dataset.local = "1";
      el.textContent = (t.getFullYear() === new Date(now()).getFullYear() ? thisYear : anyYear).format(t);
    }
  };

  const announce = (text) => {
    const el = document.getElementById("announce");
    if (el && el.textContent !== text) el.textContent = text;
  };

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
    document.title = fresh.title;
    body.dataset.live = fresh.body.dataset.live || "";
    if (fresh.body.dataset.now) skew = Date.parse(fresh.body.dataset.now) - Date.now();
    localTimes();
    tick();
    if (said) announce(said);
  };

  // decision replaces the form only when what the reader may do has changed, and
  // keeps what has been written. A card that shows other arguments than the ones
  // on this screen never gets into this form: the reader has to load it.
  const decision = (fresh) => {
    const card = document.querySelector("[data-card]");
    const other = fresh.querySelector("[data-card]");
    const old = document.getElementById("decide");
    const next = fresh.getElementById("decide");
    if (!card || !other || !old || !next) return;
    const changed = card.dataset.version !== other.dataset.version || card.dataset.digest !== other.dataset.digest;
    // Whoever has changed the arguments has none to decide, and still the old ones
    // on the screen.
    if (changed && (next.dataset.mode !== "none" || card.dataset.digest !== other.dataset.digest)) {
      document.getElementById("changed").hidden = false;
      for (const b of document.querySelectorAll("#decide button, [data-keep] button")) b.disabled = true;
      announce("This card has changed since you opened it.");
      return;
    }
    if (next.dataset.mode === old.dataset.mode && next.dataset.mode !== "none") return;
    const written = old.querySelector("textarea[name=comment]") || old.querySelector("textarea");
    const kind = old.querySelector("select");
    const had = old.contains(document.activeElement);
    const node = document.importNode(next, true);
    const area = node.querySelector("textarea");
    if (written && written.value) {
      if (area) {
        area.value = written.value;
      } else {
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
    if (kind && node.querySelector("select")) node.querySelector("select").value = kind.value;
    old.replaceWith(node);
    if (had) (area || document.getElementById("main")).focus({ preventScroll: true });
  };

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
    if (looking) {
      again = true;
      return;
    }
    looking = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", cache: "no-store", headers: { Accept: "text/html" } });
      if (answer.redirected && new URL(answer.url).pathname === "/login") {
        stop();
        location.assign(answer.url);
        return;
      }
      if (answer.ok) swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
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
    if (source || !body.dataset.live || document.hidden) return;
    source = new EventSource(body.dataset.live);
    source.addEventListener("open", () => { retry = 1000; });
    source.addEventListener("changed", look);
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

  // Keys move the focus, and only that.
  document.addEventListener("keydown", (e) => {
    if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || document.activeElement.matches("input, textarea, select, summary")) return;
    const rows = [...document.querySelectorAll(".rows [data-key]")];
    const at = rows.indexOf(document.activeElement);
    let to = null;
    if (e.key === "j") to = rows[Math.min(at + 1, rows.length - 1)];
    else if (e.key === "k") to = rows[Math.max(at - 1, 0)];
    else if (e.key === "a") to = document.querySelector("[data-testid=approve]:enabled");
    else if (e.key === "d") to = document.querySelector("[data-testid=deny]:enabled");
    if (!to) return;
    e.preventDefault();
    to.focus();
    to.scrollIntoView({ block: "nearest" });
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

  localTimes();
  tick();
  setInterval(tick, 1000);
  start();
})();
