// Shows how far an export is while it comes, and saves it when it is whole: a file that
// broke off is not saved. Without this script the form downloads the file itself.
"use strict";

(() => {
  const form = document.querySelector("form[data-export]");
  const panel = document.getElementById("export-progress");
  if (!form || !panel || !window.ReadableStream || !window.AbortController) return;
  const bar = panel.querySelector("progress");
  const said = panel.querySelector("[data-export-said]");
  const counted = panel.querySelector("[data-export-counted]"); // not read aloud as it grows
  const cancel = panel.querySelector("[data-export-cancel]");
  const submit = form.querySelector("button[type=submit]");

  const count = (n) => n.toLocaleString("en");
  const size = (n) => n < 1e6 ? count(Math.ceil(n / 1e3)) + " kB" : (n / 1e6).toFixed(1) + " MB";
  const hex = (bytes) => [...new Uint8Array(bytes)].map((b) => b.toString(16).padStart(2, "0")).join("");

  // A name that the server gives, and no more of the header.
  const nameOf = (response) => (/filename="([A-Za-z0-9._-]+)"/.exec(response.headers.get("Content-Disposition") || "") || [])[1];

  // Why the server refused, from the page that it answered with.
  const refusal = async (response) => {
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const words = page.querySelector("main .alert, main .message p");
    return words ? words.textContent.trim() : "The server answered with " + response.status + ".";
  };

  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };

  const run = async (signal) => {
    const response = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), signal, redirect: "manual" });
    const name = nameOf(response);
    if (!response.ok || !name) throw new Error(response.type === "opaqueredirect" ? "You have been signed out. Load the page again." : await refusal(response));
    const reader = response.body.getReader();
    const lines = name.endsWith("jsonl");
    const parts = [];
    let bytes = 0, ends = 0;
    const sofar = () => (lines ? count(ends) + " lines, " : "") + size(bytes);
    const show = setInterval(() => { counted.textContent = "So far: " + sofar() + "."; }, 250);
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        parts.push(value);
        bytes += value.length;
        if (lines) for (const b of value) if (b === 10) ends++;
      }
    } finally {
      clearInterval(show);
      counted.textContent = "";
    }
    const blob = new Blob(parts, { type: response.headers.get("Content-Type") || "" });
    let digest = "";
    if (window.crypto && crypto.subtle && bytes < 1 << 28) digest = " Its digest is sha256:" + hex(await crypto.subtle.digest("SHA-256", await blob.arrayBuffer())) + ", as it is on record.";
    save(blob, name);
    return "Done: " + name + ", " + sofar() + "." + digest;
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const stop = new AbortController();
    cancel.onclick = () => stop.abort();
    panel.hidden = bar.hidden = cancel.hidden = false;
    submit.disabled = true;
    said.textContent = "Exporting.";
    panel.dataset.state = "running";
    try {
      said.textContent = await run(stop.signal);
      panel.dataset.state = "done";
    } catch (error) {
      said.textContent = (stop.signal.aborted ? "Cancelled." : "Not exported: " + error.message) + " Nothing was saved.";
      panel.dataset.state = "failed";
    }
    bar.hidden = cancel.hidden = true;
    submit.disabled = false;
  });
})();
