// Holdpoint console: what fields get from a script. The arguments of a call can be searched
// and copied, times are entered in the reader's own zone, and a rule that is linked to is open.
(() => {
  "use strict";
  // The arguments can be searched, in every shape that they have on the page, and their
  // exact bytes copied, once they have been shown.
  const tools = () => {
    const args = document.querySelector("[data-testid=args]");
    const card = document.querySelector("[data-card]");
    if (!args || !card) return;
    const bar = document.createElement("div");
    bar.className = "argtools";
    const field = Object.assign(document.createElement("input"), { type: "search", placeholder: "Search in the arguments" });
    const label = document.createElement("label");
    label.append(Object.assign(document.createElement("span"), { className: "hidden", textContent: "Search in the arguments" }), field);
    const said = Object.assign(document.createElement("span"), { className: "meta" });
    said.setAttribute("role", "status");
    const copy = Object.assign(document.createElement("button"), { type: "button", textContent: "Copy" });
    copy.dataset.testid = "copy-arguments";
    copy.hidden = !card.dataset.exact;
    bar.append(label, said, copy);
    args.parentElement.querySelector("h2").after(bar);
    let ranges = [];
    let at = 0;
    const mark = () => {
      CSS.highlights.set("found", new Highlight(...ranges));
      CSS.highlights.set("current", new Highlight(...ranges.slice(at, at + 1)));
      said.textContent = !field.value ? "" : ranges.length ? `${at + 1} of ${ranges.length}` : "not found";
      ranges[at]?.startContainer.parentElement.scrollIntoView({ block: "nearest" });
    };
    const search = () => {
      const wanted = field.value.toLowerCase();
      ranges = [];
      at = 0;
      const parts = wanted ? document.querySelectorAll(".forms .code, .forms table, [data-testid=args], details[open] > .table-wrap, details[open] > .tree") : [];
      for (const part of parts) {
        const walk = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
        for (let node; ranges.length < 1000 && (node = walk.nextNode());) {
          const text = node.data.toLowerCase();
          for (let i = text.indexOf(wanted); i >= 0 && ranges.length < 1000; i = text.indexOf(wanted, i + wanted.length)) {
            ranges.push(new StaticRange({ startContainer: node, startOffset: i, endContainer: node, endOffset: i + wanted.length }));
          }
        }
      }
      mark();
    };
    label.hidden = !window.Highlight;
    field.addEventListener("input", search);
    field.addEventListener("keydown", (e) => {
      if (e.key !== "Enter" || !ranges.length) return;
      at = (at + (e.shiftKey ? ranges.length - 1 : 1)) % ranges.length;
      mark();
    });
    copy.addEventListener("click", async () => {
      try {
        const answer = await fetch(card.dataset.exact, { credentials: "same-origin", cache: "no-store" });
        if (!answer.ok || answer.redirected) throw new Error(answer.status);
        await navigator.clipboard.writeText(await answer.text());
        said.textContent = "Copied, byte for byte.";
      } catch {
        said.textContent = "Not copied. The file below has the same bytes.";
      }
    });
  };
  tools();

  // A link to a rule unfolds it.
  const unfold = () => {
    const fold = document.getElementById(location.hash.slice(1))?.querySelector(".rulefold");
    if (fold) fold.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();

  // Times are in the zone of the browser, unless another one was chosen. Its name goes along,
  // so that a time behind a change of the clocks is meant as it is read.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
  for (const field of document.querySelectorAll(".ownzone select")) {
    if (field.value !== "" || !zone.includes("/")) continue;
    field.prepend(new Option(`${zone.replaceAll("_", " ")}, as in this browser`, zone, true, true));
  }
})();
