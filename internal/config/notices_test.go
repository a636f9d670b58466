package config

import (
	"strings"
	"testing"

	"holdpoint/internal/seal"
)

func TestMailServer(t *testing.T) {
	password := write(t, "hunter2hunter2\n")
	path := write(t, "smtp:\n  addr: mail.example.com:587\n  from: Holdpoint <holdpoint@example.com>\n  user: hp\n  password_file: "+password+"\noutbound_allow_private: [10.20.1.0/16, 127.0.0.1/32]\n")
	c, err := Load(path, []string{"HOLDPOINT_SMTP_TLS=tls"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(Temporal); err != nil {
		t.Fatal(err)
	}
	mail, there := c.Mail()
	if !there || mail.Password != "hunter2hunter2" || mail.TLS != "tls" || mail.User != "hp" {
		t.Errorf("got %+v, %t", mail, there)
	}
	if len(c.AllowPrivate) != 2 || c.AllowPrivate[0].String() != "10.20.0.0/16" {
		t.Errorf("networks %v", c.AllowPrivate)
	}
	if c, err := Load("", []string{"HOLDPOINT_OUTBOUND_ALLOW_PRIVATE=10.0.0.0/8, 192.168.0.0/16", "HOLDPOINT_SMTP_ALLOW_PLAIN=true"}); err != nil || len(c.OutboundAllowPrivate) != 2 || !c.SMTP.AllowPlain {
		t.Errorf("by variables: %v, %v", c.OutboundAllowPrivate, err)
	}
}

func TestMistakesInTellingAreNamed(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"no address":     {"smtp: {from: a@example.com}\n", "smtp.addr"},
		"no port":        {"smtp: {addr: mail, from: a@example.com}\n", "smtp.addr"},
		"no sender":      {"smtp: {addr: 'mail:25', from: nobody}\n", "smtp.from"},
		"half a login":   {"smtp: {addr: 'mail:25', from: a@example.com, user: u}\n", "smtp.user"},
		"plain":          {"smtp: {addr: 'mail:25', from: a@example.com, tls: plain}\n", "smtp.tls"},
		"other tls":      {"smtp: {addr: 'mail:25', from: a@example.com, tls: some}\n", "smtp.tls"},
		"password twice": {"smtp: {addr: 'mail:25', from: a@example.com, user: u, password: hunter2, password_file: /x}\n", "smtp.password"},
		"network":        {"outbound_allow_private: [inside]\n", "outbound_allow_private"},
		"everything":     {"outbound_allow_private: [0.0.0.0/0]\n", "outbound_allow_private"},
		"link":           {"public_url: javascript:alert(1)\n", "public_url"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Load(write(t, tc.file), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Check(Temporal); err == nil || !strings.Contains(err.Error(), tc.want+":") && !strings.Contains(err.Error(), tc.want+",") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want an error naming %s", err, tc.want)
			}
		})
	}
}

func TestDataKeyAlone(t *testing.T) {
	c := Default()
	if err := c.Check(DataKey); err == nil || !strings.Contains(err.Error(), "data_key:") || strings.Contains(err.Error(), "signing_keys") {
		t.Errorf("without one: %v", err)
	}
	c.DataKey = seal.NewKey()
	if err := c.Check(DataKey); err != nil || c.Sealer == nil {
		t.Errorf("with one: %v", err)
	}
}
