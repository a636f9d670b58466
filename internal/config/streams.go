package config

import (
	"errors"
	"fmt"
)

// logStreams reads the files that streams of the audit log name, and checks them.
// The networks that may be asked have been read.
func (c *Config) logStreams() (errs []error) {
	names := map[string]bool{}
	for i := range c.LogStreams {
		s := &c.LogStreams[i]
		bad := func(err error) { errs = append(errs, fmt.Errorf("log_streams[%d].%w", i, err)) }
		if names[s.Name] {
			bad(errors.New("name: another one has it already"))
		}
		names[s.Name] = true
		readable := true
		for _, f := range []struct {
			name  string
			path  *string
			text  *string // or
			bytes *[]byte
		}{
			{"secret", &s.SecretFile, &s.Secret, nil},
			{"token", &s.TokenFile, &s.Token, nil},
			{"ca", &s.CAFile, nil, &s.CA},
			{"cert", &s.CertFile, nil, &s.Cert},
			{"key", &s.KeyFile, nil, &s.Key},
		} {
			if *f.path == "" {
				continue
			}
			if f.text != nil && *f.text != "" {
				bad(fmt.Errorf("%s: it is given both by itself and as a file; give one", f.name))
				readable = false
				continue
			}
			data, err := c.opener.read("log_streams."+f.name, *f.path)
			if err != nil {
				bad(fmt.Errorf("%s_file: %w", f.name, err))
				readable = false
				continue
			}
			// Read once: whoever checks again finds what was read.
			if *f.path = ""; f.text != nil {
				*f.text = data
			} else {
				*f.bytes = []byte(data)
			}
		}
		if !readable {
			continue // what depends on the file would only be reported twice
		}
		for _, err := range s.Check(c.AllowPrivate) {
			bad(err)
		}
	}
	return errs
}
