package pkcs11

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// URI names a key in a token, and how to get at it, by RFC 7512:
//
//	pkcs11:token=holdpoint;object=kek;id=%01?module-path=/usr/lib/…/lib.so&pin-source=file:/etc/…/pin
type URI struct {
	// Of the token; "" matches any.
	Token, Serial, Manufacturer, Model string
	// Of the key: its CKA_LABEL and CKA_ID; "" matches any, but one of them is there.
	Object, ID string
	// Module is the library's path, and PINFile that of a file with the PIN.
	Module, PINFile string
}

// ParseURI reads the name of a key. A PIN in it is refused, for everybody on the machine
// sees a program's arguments.
func ParseURI(text string) (u URI, err error) {
	rest, ok := strings.CutPrefix(text, "pkcs11:")
	if !ok {
		return u, errors.New("want an address such as pkcs11:token=holdpoint;object=kek?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/etc/holdpoint/pin")
	}
	path, query, _ := strings.Cut(rest, "?")
	kind, source := "", ""
	known := map[string]*string{
		"token": &u.Token, "serial": &u.Serial, "manufacturer": &u.Manufacturer, "model": &u.Model, "object": &u.Object, "id": &u.ID, "type": &kind,
		"module-path": &u.Module, "pin-source": &source,
	}
	given := map[string]bool{}
	for _, part := range []struct{ text, by string }{{path, ";"}, {query, "&"}} {
		for pair := range strings.SplitSeq(part.text, part.by) {
			if pair == "" {
				continue
			}
			name, value, _ := strings.Cut(pair, "=")
			if name == "pin-value" {
				return u, errors.New("pin-value: everybody sees a program's arguments: put the PIN into a file, and name that by pin-source=file:/…")
			}
			into := known[name]
			inQuery := name == "module-path" || name == "pin-source"
			if into == nil || inQuery != (part.by == "&") {
				return u, fmt.Errorf("%q: there is no such attribute here", name)
			}
			if given[name] {
				return u, fmt.Errorf("%s: it is there twice", name)
			}
			given[name] = true
			if *into, err = url.PathUnescape(value); err != nil {
				return u, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if kind != "" && kind != "secret-key" {
		return u, fmt.Errorf("type: want secret-key, got %q", kind)
	}
	if u.Object == "" && u.ID == "" {
		return u, errors.New("it names no key: want object=LABEL, id=%01, or both")
	}
	if source != "" {
		u.PINFile = strings.TrimPrefix(strings.TrimPrefix(source, "file:"), "//")
		if !filepath.IsAbs(u.PINFile) {
			return u, fmt.Errorf("pin-source: want the absolute path of a file, such as file:/etc/holdpoint/pin, got %q", source)
		}
	}
	return u, nil
}

// name is the address of a key in a token, without how to get at it.
func name(token, object, id string) string {
	var parts []string
	for _, p := range []struct{ name, value string }{{"token", token}, {"object", object}} {
		if p.value != "" {
			parts = append(parts, p.name+"="+strings.ReplaceAll(url.PathEscape(p.value), ";", "%3B"))
		}
	}
	if id != "" {
		var b strings.Builder
		for _, c := range []byte(id) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
		parts = append(parts, "id="+b.String())
	}
	return "pkcs11:" + strings.Join(parts, ";")
}
