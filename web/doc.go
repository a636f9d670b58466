// Package web is the console: the pages on which people sign in, see what waits
// for them, and decide. Handlers read forms and sessions, ask the rooms behind them,
// and render pure templ views. The package never talks to Postgres or Temporal, never runs
// an inline script, and never changes anything on a GET.
package web
