package config

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// notCompared are settings that processes read again while they run: keys, whose changes are events
// of their own.
var notCompared = []string{"data_key", "signing_keys"}

// reach is who reaches an address on which a process listens. Where exactly each does, processes of one
// kind differ in.
func reach(address string) string {
	host, _, err := net.SplitHostPort(address)
	ip, notIP := netip.ParseAddr(host)
	switch {
	case address == "":
		return "nobody"
	case err == nil && (host == "" || notIP == nil && ip.IsUnspecified()):
		return "every network"
	case host == "localhost" || notIP == nil && ip.IsLoopback():
		return "this machine"
	}
	return "one network"
}

// Values are the settings as they are after Check, secrets included, by their names in the file: for
// telling whether a process has others than another one, and for nobody to read.
func (c *Config) Values() (map[string][]byte, error) {
	values := map[string][]byte{}
	all := reflect.ValueOf(*c)
	for i, f := range reflect.VisibleFields(all.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "" || name == "-" || slices.Contains(notCompared, name) {
			continue
		}
		value := all.Field(i).Interface()
		if address, is := value.(string); is && (name == "listen" || name == "metrics_listen") {
			value = reach(address)
		}
		text, err := yaml.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("write the setting %s: %w", name, err)
		}
		values[name] = text
	}
	return values, nil
}
