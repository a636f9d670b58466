package stakes

import (
	"path"
	"regexp"
	"strings"
)

// actingPlaces are where files are run by something else, or say who gets in, once they are there:
// timers, services, shells at sign-in, hooks, continuous integration, keys and accounts.
var actingPlaces = regexp.MustCompile(`(?:^|/)(?:` + strings.Join([]string{
	`etc/(?:cron[^/]*|anacrontab|systemd|init\.d|rc\.local|profile|profile\.d|bash\.bashrc|sudoers|sudoers\.d|pam\.d|ld\.so\.preload|passwd|shadow|group|ssh)(?:/|$)`,
	`var/spool/cron/`, `systemd/(?:system|user)/`, `\.ssh/`, `\.(?:bashrc|bash_profile|bash_login|profile|zshrc|zshenv|zprofile|zlogin)$`,
	`\.git/(?:hooks/|config$)`, `\.github/workflows/`, `\.gitlab-ci\.ya?ml$`, `jenkinsfile$`, `library/launch(?:agents|daemons)/`, `programs/startup/`,
}, "|") + `)`)

const actsByItself = "what is there is run by itself, or says who gets in"

// written is the danger of writing to a file, which is not known, but for places where that alone does
// something.
func (c *call) written(f *matchedTemplate, place string) {
	if place == "" || !actingPlaces.MatchString(path.Clean(strings.ToLower(strings.ReplaceAll(c.text(place), `\`, "/")))) {
		return
	}
	f.danger = High
	f.notes = append(f.notes, actsByItself)
}
