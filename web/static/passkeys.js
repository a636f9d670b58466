// Passkeys. A button with data-passkey asks the server for options, has the
// browser ask the person, puts the answer into its form's hidden fields
// "challenge" and "assertion", and submits the form as if it had been pressed
// itself. "get" proves who somebody is, or signs what the form says: with data-fields
// the server is sent all of it. "create" makes a new passkey, which one that is there
// signs (data-sign) if the server asks for that. "each" signs what a form says of every
// call that is ticked in it, one after the other.
(() => {
  "use strict";

  const decode = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const encode = (buffer) => {
    let text = "";
    for (const b of new Uint8Array(buffer)) text += String.fromCharCode(b);
    return btoa(text).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  };
  const descriptors = (list) => (list || []).map((d) => ({ ...d, id: decode(d.id) }));

  const ask = {
    get: (o) => navigator.credentials.get({
      publicKey: { ...o, challenge: decode(o.challenge), allowCredentials: descriptors(o.allowCredentials) },
    }),
    create: (o) => navigator.credentials.create({
      publicKey: {
        ...o, challenge: decode(o.challenge), user: { ...o.user, id: decode(o.user.id) },
        excludeCredentials: descriptors(o.excludeCredentials),
      },
    }),
  };

  // What the server reads: WebAuthn's own JSON, binary values in base64url.
  const written = (c) => {
    const r = c.response;
    const response = { clientDataJSON: encode(r.clientDataJSON) };
    for (const name of ["attestationObject", "authenticatorData", "signature", "userHandle"]) {
      if (r[name]) response[name] = encode(r[name]);
    }
    if (r.getTransports) response.transports = r.getTransports();
    return JSON.stringify({ id: c.id, rawId: encode(c.rawId), type: c.type, response, clientExtensionResults: {} });
  };

  // options asks the server. null means that the page is on its way elsewhere.
  const options = async (address, fields) => {
    const answer = await fetch(address, { method: "POST", body: fields, credentials: "same-origin", headers: { Accept: "application/json" } });
    const here = location.pathname + location.search;
    if (answer.redirected) {
      location.assign("/login?next=" + encodeURIComponent(here));
      return null;
    }
    const said = await answer.json();
    if (answer.ok) return said;
    if (said.code === "verification_needed") {
      location.assign("/verify?next=" + encodeURIComponent(location.pathname));
      return null;
    }
    throw new Error(said.detail);
  };

  // fields are what the server is told of what is to be proved or signed.
  const fields = (button) => {
    const told = "fields" in button.dataset ? new URLSearchParams(new FormData(button.form, button)) : new URLSearchParams();
    if (button.dataset.purpose) told.set("purpose", button.dataset.purpose);
    if (button.dataset.boundTo) told.set("bound_to", button.dataset.boundTo);
    return told;
  };

  const words = (error) => {
    switch (error.name) {
      case "NotAllowedError": return "That was cancelled, or took too long. Try again.";
      case "InvalidStateError": return "This device has a passkey for you already.";
      case "SecurityError": return "Passkeys do not work at this address.";
      case "NotSupportedError": return "This device cannot make such a passkey.";
      case "Error": return error.message;
    }
    return "That did not work. Try again.";
  };

  // signEach has each ticked call's vote signed. What the server refuses goes unsigned, and
  // is refused again by name; what the person cancels sends nothing.
  const signEach = async (button, say) => {
    const form = button.form;
    const value = (name) => form.elements[name].value;
    const ids = [...form.querySelectorAll("input[name=id]:checked")].map((box) => box.value);
    for (const [i, id] of ids.entries()) {
      say(`Follow what your browser asks: ${i + 1} of ${ids.length}.`);
      const told = new URLSearchParams({
        decision: button.value, comment: value("comment"), kind: value("kind"), writer: value("writer"), digest: value(`digest:${id}`), version: value(`version:${id}`),
      });
      let given = null;
      try {
        given = await options(`/approvals/${encodeURIComponent(id)}/votes/options`, told);
      } catch (error) {
        if (error.name !== "Error") throw error;
        continue;
      }
      if (!given) return false;
      form.elements[`assertion:${id}`].value = written(await ask.get(given.publicKey));
      form.elements[`challenge:${id}`].value = given.challenge_id;
    }
    return true;
  };

  document.addEventListener("click", async (e) => {
    const button = e.target.closest("[data-passkey]");
    if (!button || button.disabled) return;
    e.preventDefault();
    const form = button.form;
    const status = form.querySelector("[data-passkey-status]");
    const say = (text) => { if (status) status.textContent = text; };
    if ((button.dataset.passkey === "create" || "fields" in button.dataset) && !button.formNoValidate && !form.reportValidity()) return;
    if (!window.PublicKeyCredential) {
      say("This browser has no passkeys.");
      return;
    }
    const told = fields(button); // while the button counts, which names the decision
    button.disabled = true;
    say("Follow what your browser asks.");
    let ready = false;
    try {
      if (button.dataset.passkey === "each") {
        ready = await signEach(button, say);
        if (ready) say("");
        return;
      }
      let given = await options(button.dataset.options, told);
      if (!given) return;
      let answer = given.publicKey ? written(await ask[button.dataset.passkey](given.publicKey)) : "";
      if (given.sign) {
        say("Now sign it with a passkey that you have already.");
        given = await options(button.dataset.sign, new URLSearchParams({ challenge: given.challenge_id, assertion: answer }));
        if (!given) return;
        answer = written(await ask.get(given.publicKey));
      }
      form.elements.challenge.value = given.challenge_id;
      form.elements.assertion.value = answer;
      // What somebody had typed is not a second proof.
      for (const name of ["code", "password"]) if (form.elements[name]) form.elements[name].value = "";
      ready = true;
      say("");
    } catch (error) {
      say(words(error));
    } finally {
      button.disabled = false;
      if (ready) form.requestSubmit(button);
      else button.focus();
    }
  });
})();
