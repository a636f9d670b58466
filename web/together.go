package web

import "net/url"

// sessionURL is the page of all calls of a session; "" where no address can name it.
func sessionURL(agent, session string) string {
	for _, name := range []string{agent, session} {
		if name == "" || name == "." || name == ".." {
			return ""
		}
	}
	return "/sessions/" + url.PathEscape(agent) + "/" + url.PathEscape(session)
}
