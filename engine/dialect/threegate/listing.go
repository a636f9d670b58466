package threegate

import (
	"regexp"
	"strings"
)

var (
	hexRun   = regexp.MustCompile(`\b[0-9A-Fa-f]{64}\b`)
	bullet   = regexp.MustCompile(`^ *(?:[-*+]|[0-9]{1,9}[.)]) +`)
	fileLike = regexp.MustCompile(`^[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*\.[A-Za-z][A-Za-z0-9]{0,7}$`)
)

// mention is a path or a hash that a section names.
type mention struct {
	path string // absolute, or "" for a hash
	hash string
	line int // counted from 1
}

// mentions finds the paths below root and the hashes of a section, in order. A
// hash before the path on its line is put behind it.
func (c *checker) mentions(s section, root string) []mention {
	var all []mention
	for i := s.from; i < s.to; i++ {
		line := c.at(i)
		var paths, hashes []mention
		for _, p := range prosePaths(line) {
			if strings.HasPrefix(p.text, root) {
				paths = append(paths, mention{path: p.text, line: i + 1})
			}
		}
		for _, at := range hexRun.FindAllStringIndex(line, -1) {
			hashes = append(hashes, mention{hash: line[at[0]:at[1]], line: i + 1})
		}
		if len(paths) > 1 && len(hashes) > 0 && root == inRoot {
			c.add("I7", i+1, "list one file and its hash on a line")
		}
		all = append(append(all, paths...), hashes...)
	}
	return all
}

// inputFiles applies I6 and I7: the section lists the declared inputs, each with
// its hash, and nothing else.
func (c *checker) inputFiles() {
	s := c.sections[inputSection]
	if s.heading == 0 || c.root == nil {
		return
	}
	hashed, listed := map[string]bool{}, map[string]bool{}
	var current *mention
	all := c.mentions(s, inRoot)
	for i := range all {
		m := &all[i]
		if m.path != "" {
			current = m
			listed[m.path] = true
			if _, declared := c.request.input(m.path); !declared {
				c.add("I6", m.line, "%s is not declared under inputs", show(m.path))
			}
			continue
		}
		if current == nil {
			c.add("I7", m.line, "this hash belongs to no listed file; write the file's path under /in/ before it")
			continue
		}
		in, declared := c.request.input(current.path)
		if declared && in.SHA256 != m.hash {
			c.add("I7", m.line, "the hash of %s differs from the one under inputs", show(current.path))
		}
		hashed[current.path] = true
	}
	for _, in := range c.request.Inputs {
		path := inRoot + in.Name
		switch {
		case !listed[path]:
			c.add("I6", s.heading, "the section does not list %s, which is declared under inputs", show(path))
		case !hashed[path]:
			c.add("I7", s.heading, "the section lists %s without its SHA-256 of 64 hex digits", show(path))
		}
	}
	c.listedTwice("I6", s, inRoot)
	c.bareNames("I6", s, inRoot, func(name string) bool { _, ok := c.request.input(inRoot + name); return ok })
}

// outputExpectations applies O4 and O5: the section lists the declared outputs
// and nothing else.
func (c *checker) outputExpectations() {
	s := c.sections[outputSection]
	if s.heading == 0 || c.root == nil {
		return
	}
	listed := map[string]bool{}
	for _, m := range c.mentions(s, outRoot) {
		switch {
		case m.hash != "":
		case !isSafeName(strings.TrimPrefix(m.path, outRoot)):
			c.add("O4", m.line, "%s is no safe path of a file under /out/", show(m.path))
		case !c.request.hasOutput(m.path):
			c.add("O5", m.line, "%s is not declared under outputs_expected", show(m.path))
		}
		listed[m.path] = true
	}
	for _, out := range c.request.OutputsExpected {
		if !listed[out.Path] {
			c.add("O5", s.heading, "the section does not list %s, which is declared under outputs_expected", show(out.Path))
		}
	}
	c.listedTwice("O5", s, outRoot)
	c.bareNames("O5", s, outRoot, func(name string) bool { return c.request.hasOutput(outRoot + name) })
}

// listedTwice finds lines that list a file which a line before lists: they begin with
// its path, or have it and a hash. What is said of a file in between is no second listing.
func (c *checker) listedTwice(rule string, s section, root string) {
	listed := map[string]bool{}
	for i := s.from; i < s.to; i++ {
		item := strings.TrimLeft(c.at(i)[len(bullet.FindString(c.at(i))):], " `*_\"'")
		paths := prosePaths(item)
		if len(paths) == 0 || !strings.HasPrefix(paths[0].text, root) || !strings.HasPrefix(item, paths[0].text) && !hexRun.MatchString(item) {
			continue
		}
		if listed[paths[0].text] {
			c.add(rule, i+1, "%s is listed twice", show(paths[0].text))
		}
		listed[paths[0].text] = true
	}
}

// bareNames finds items of a list that begin with the name of a file that is
// not declared.
func (c *checker) bareNames(rule string, s section, root string, declared func(name string) bool) {
	for i := s.from; i < s.to; i++ {
		mark := bullet.FindString(c.at(i))
		if mark == "" {
			continue
		}
		word, _, _ := strings.Cut(c.at(i)[len(mark):], " ")
		word = strings.Trim(word, "`*\"',:;()")
		if fileLike.MatchString(word) && !declared(word) {
			c.add(rule, i+1, "%s is not declared; list declared files only, by their path under %s", show(word), root)
		}
	}
}
