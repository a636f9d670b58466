package stakes

import (
	"path"
	"regexp"
	"strings"
)

// Where files are run by something else, or say who gets in, once they are there: timers, services,
// shells at sign-in, hooks, continuous integration, keys and accounts. Directories, and files.
var (
	inEtc      = `etc/(?:cron[^/\s]*|anacrontab|systemd|init\.d|rc\.local|profile|profile\.d|bash\.bashrc|sudoers|sudoers\.d|pam\.d|ld\.so\.preload|passwd|shadow|group|ssh)`
	actingDirs = `(?:` + strings.Join([]string{
		inEtc, `var/spool/cron`, `systemd/(?:system|user)`, `\.ssh`, `\.git/hooks`, `\.github/workflows`, `library/launch(?:agents|daemons)`, `programs/startup`,
	}, "|") + `)`
	actingFiles = `(?:` + strings.Join([]string{
		inEtc, `\.(?:bashrc|bash_profile|bash_login|profile|zshrc|zshenv|zprofile|zlogin)`, `\.git/config`, `\.gitlab-ci\.ya?ml`, `jenkinsfile`,
	}, "|") + `)`
)

// toEverybody is what lets everybody write, in figures or letters.
var toEverybody = regexp.MustCompile(`(?i)\b(?:chmod\b(?:\s+-\S+)*\s+["']?|(?:mkdir|install)\b[^;|&\n]*\s(?:-\w*m\s*|--m\w*[=\s])["']?)(?:[0-7]{0,3}[2367](?:[\s"';|&)]|$)|(?:[ugoa]*[+=-]\w*,)*[ug]*[oa][ugoa]*[+=]\w*w)`)

// actingPlaces are those places as a file's name, intoActingPlaces as what a command writes to: by its
// output, by tee, by a change in place, as the last word of what copies or moves, and the timers of a user.
var (
	actingPlaces = regexp.MustCompile(`(?:^|/)(?:` + actingDirs + `/|` + actingFiles + `$)`)
	// Flags may be short, together, or long and cut off, with = or without. A program of sed may have separators in it.
	changesInPlace = `\b(?:sed|perl|ruby|yq|[gm]?awk)\b` + quotedOr + `\s(?:-\w*i|--i)` + quotedOr + `[\s"'/]`
	quotedOr       = `(?:[^;&\n"']|'[^'\n]*'|"[^"\n]*")*`
	intoDirectory  = strings.Join([]string{
		`\b(?:cp|mv|install|ln)\b[^;&|\n]*\s(?:-\w*t|--t[\w-]*)`,
		`\b(?:curl|wget)\b[^;&|\n]*\s(?:-\w*[op]|--output\S*?|--directory-prefix)`,
		`\b(?:tar|unzip)\b[^;&|\n]*\s(?:(?-i:-\w*C)|--dir\w*|-\w*d)`,
	}, "|")
	intoActingPlaces = regexp.MustCompile(`(?im)` + strings.Join([]string{
		`(?:>\s*["']?(?:[^\s;&|"']*/)?|\bdd\b[^;&|\n]*\sof=["']?(?:[^\s;&|"']*/)?|\btee\b[^;&|\n]*[\s"'/]|` + changesInPlace + `)(?:` + actingDirs + `/|` + actingFiles + `(?:$|[\s"';|&)]))`,
		`\b(?:cp|mv|install|ln|rsync|scp)\b[^;&|\n]*[\s"'/:](?:` + actingDirs + `(?:/[^\s;&|"')]*)?|` + actingFiles + `)["']?\s*(?:$|[;&|)])`,
		`(?:` + intoDirectory + `)[\s=]*["']?(?:[^\s;&|"']*/)?(?:` + actingDirs + `|` + actingFiles + `)(?:$|[\s/"';|&)])`,
		`(?:^|[;&|(])\s*(?:sudo\s+)?crontab\b(?:\s+(?:-u\s*|--user[=\s])\S+(?:\s|$))?\s*(?:-?\s*(?:$|[;&|)])|[^\s;&|-])`,
	}, "|"))
)

const actsByItself = "what is there is run by itself, or says who gets in"

// acts reports whether a file is at such a place.
func acts(name string) bool {
	return actingPlaces.MatchString(path.Clean(strings.ToLower(strings.ReplaceAll(name, `\`, "/"))))
}

// markActing gives a call that writes a file high danger where the file acts by itself.
// Elsewhere the danger of a write is not known.
func (c *call) markActing(f *matchedTemplate, place string) {
	if place == "" || !acts(c.text(place)) {
		return
	}
	f.danger = High
	f.notes = append(f.notes, actsByItself)
}
