// Package web is the console: the pages on which people sign in, see what waits
// for them, and decide.
//
// Pages that belong together are served by one handler type: inboxHandler,
// cardHandler, auditHandler and so on, each in a file of its own. Beside it stands
// the interface of what it needs, of one to six methods. What all share (sessions,
// rendering, error pages, the message after a change) is site, which each holds as a
// field. New wires them, and Console only registers their routes.
//
// Handlers read forms and sessions, ask what stands behind the interfaces, and render
// pure templ views. The package never talks to Postgres or Temporal, never runs an
// inline script, and never changes anything on a GET.
package web
