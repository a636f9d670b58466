package config

import (
	"errors"
	"fmt"
	"strings"
)

// sso reads the files of secrets and checks the providers by which people sign in.
func (c *Config) sso() (errs []error) {
	names, issuers := map[string]bool{}, map[string]bool{}
	directory := ""
	for i := range c.SSO {
		p := &c.SSO[i]
		bad := func(err error) { errs = append(errs, fmt.Errorf("sso[%d].%w", i, err)) }
		if names[p.Name] {
			bad(errors.New("name: another one has it already"))
		}
		if issuers[p.Issuer] && p.Issuer != "" {
			// What one of the two lets in, the other would, too.
			bad(errors.New("issuer: another one has it already"))
		}
		names[p.Name], issuers[p.Issuer] = true, true
		if p.SCIM && directory != "" {
			bad(fmt.Errorf("scim: %s has it already; one directory says who there is", directory))
		} else if p.SCIM {
			directory = p.Name
		}
		if p.ClientSecretFile != "" {
			if p.ClientSecret != "" {
				bad(errors.New("client_secret: it is given both by itself and as a file; give one"))
				continue
			}
			var err error
			if p.ClientSecret, err = c.opener.read("sso.client_secret", p.ClientSecretFile); err != nil {
				bad(fmt.Errorf("client_secret_file: %w", err))
				continue
			}
			p.ClientSecretFile = ""
		}
		for _, err := range p.Check() {
			bad(err)
		}
	}
	if len(c.SSO) > 0 && c.DatabasePeopleURL == "" {
		errs = append(errs, errors.New("database_people_url: it is missing: who comes in by sso is written as that login (docs/people.md)"))
	}
	if c.SSOOnly && len(c.SSO) == 0 {
		errs = append(errs, errors.New("sso_only: there is no provider in sso, so that nobody but administrators could sign in"))
	}
	for _, role := range c.SecondFactorRoles {
		if role == "" || role != strings.TrimSpace(role) {
			errs = append(errs, fmt.Errorf("second_factor_roles: %q is no role", role))
		}
	}
	return errs
}
