// The console's service worker. It shows what a push says, and opens the page about it
// when somebody chooses the notification. It does nothing else.
//
// It has no "fetch" and keeps no page. A card says what is true of a call at one moment
// and to one person: from a cache it could be an old one, or of somebody who has signed
// out, and people would decide by it. Without the server nothing can be decided anyway.
//
// A browser asks for this file again at each visit and at least once a day, and takes a
// new one when a byte is different: it has no version but its bytes.
(() => {
  "use strict";

  // What to show where nothing can be read: a browser asks that every push shows something.
  const unknown = { title: "Something waits for you", body: "Open Holdpoint", path: "/", tag: "holdpoint" };

  const read = (data) => {
    try {
      return { ...unknown, ...data.json() };
    } catch {
      return unknown;
    }
  };

  // At this device's own clock.
  const until = (text) => {
    const at = new Date(text);
    if (!text || Number.isNaN(at.getTime())) return "";
    const day = at.toDateString() === new Date().toDateString() ? {} : { weekday: "short" };
    return "\nUntil " + at.toLocaleTimeString([], { ...day, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  };

  self.addEventListener("install", () => self.skipWaiting());

  self.addEventListener("push", (e) => {
    const said = read(e.data);
    e.waitUntil(self.registration.showNotification(said.title, {
      body: said.body + until(said.until),
      tag: said.tag, // what is said later of the same call takes the place
      renotify: true,
      icon: "/static/icon-192.png",
      data: { path: said.path },
    }));
  });

  self.addEventListener("notificationclick", (e) => {
    e.notification.close();
    const to = new URL(e.notification.data.path, self.location.origin);
    if (to.origin !== self.location.origin) return;
    e.waitUntil((async () => {
      const open = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
      const there = open.find((c) => c.url === to.href);
      return there ? there.focus() : self.clients.openWindow(to.href);
    })());
  });
})();
