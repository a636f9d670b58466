// Notifications in this browser. A form with data-push subscribes the browser with the
// key in it and is sent with what the browser then says of itself; one with
// data-push-end ends the browser's own subscription as well. The server decides who is
// told what; the service worker shows it.
(() => {
  "use strict";

  const decode = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const encode = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

  const supported = () => "serviceWorker" in navigator && "PushManager" in window && "Notification" in window;
  const missing = () => /iPhone|iPad/.test(navigator.userAgent)
    ? "On this device it takes the app: choose Share, then “Add to Home Screen”, and open Holdpoint from there."
    : "This browser cannot be notified.";

  // subscribe has the browser make a subscription, in place of one to another key.
  const subscribe = async (key) => {
    if ((await Notification.requestPermission()) !== "granted") throw new Error("Notifications are not allowed for this site. Allow them in the browser’s settings, then try again.");
    await navigator.serviceWorker.register("/sw.js", { scope: "/", updateViaCache: "none" });
    const worker = await navigator.serviceWorker.ready;
    const former = await worker.pushManager.getSubscription();
    if (former && (!former.options.applicationServerKey || encode(former.options.applicationServerKey) !== key)) await former.unsubscribe();
    return worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: decode(key) });
  };

  const unsubscribe = async () => {
    const worker = supported() && await navigator.serviceWorker.getRegistration("/");
    const subscription = worker && await worker.pushManager.getSubscription();
    if (subscription) await subscription.unsubscribe();
  };

  document.addEventListener("submit", async (e) => {
    const form = e.target;
    if (form.dataset.ready) return;
    if ("pushEnd" in form.dataset) {
      e.preventDefault();
      // Without it the server sends nothing either.
      await unsubscribe().catch(() => {});
      form.dataset.ready = "yes";
      form.requestSubmit();
      return;
    }
    if (!("push" in form.dataset)) return;
    e.preventDefault();
    const status = form.querySelector("[data-push-status]");
    const button = form.querySelector("button[type=submit]");
    const say = (text) => { status.textContent = text; };
    if (!supported()) {
      say(missing());
      return;
    }
    button.disabled = true;
    say("Follow what your browser asks.");
    try {
      const made = await subscribe(form.dataset.push);
      form.elements.endpoint.value = made.endpoint;
      form.elements.p256dh.value = encode(made.getKey("p256dh"));
      form.elements.auth.value = encode(made.getKey("auth"));
      form.dataset.ready = "yes";
      button.disabled = false;
      form.requestSubmit(button);
    } catch (error) {
      say(error.name === "Error" ? error.message : "The browser’s push service could not be reached. Try again.");
      button.disabled = false;
      button.focus();
    }
  });
})();
