package slack

import (
	"testing"
)

// The vector was computed by another program:
//
//	printf 'v0:1531420618:token=x&team_id=T1' | openssl dgst -sha256 -hmac 8f742231b10e8888abcd99yyyzzz85a5
func TestSign(t *testing.T) {
	const secret, stamp, body = "8f742231b10e8888abcd99yyyzzz85a5", "1531420618", "token=x&team_id=T1"
	want := "v0=ee1a198e50481730009ed1fa99d3f2d9cc2ef6ebdfc11672345c4cbcf915c217"
	if got := Sign(secret, stamp, []byte(body)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r := Request{Timestamp: stamp, Signature: want, Body: []byte(body)}
	if mac := signed(secret, r); len(mac) != 32 {
		t.Errorf("%d bytes of a genuine signature", len(mac))
	}
	for name, forged := range map[string]Request{
		"another body":    {Timestamp: stamp, Signature: want, Body: []byte(body + "&")},
		"another time":    {Timestamp: "1531420619", Signature: want, Body: []byte(body)},
		"upper case":      {Timestamp: stamp, Signature: "v0=" + "EE1A198E50481730009ED1FA99D3F2D9CC2EF6EBDFC11672345C4CBCF915C217", Body: []byte(body)},
		"without version": {Timestamp: stamp, Signature: want[3:], Body: []byte(body)},
		"none":            {Timestamp: stamp, Body: []byte(body)},
	} {
		if signed(secret, forged) != nil {
			t.Errorf("%s is taken", name)
		}
	}
	if signed("", Request{Timestamp: stamp, Signature: Sign("", stamp, []byte(body)), Body: []byte(body)}) != nil {
		t.Error("an endpoint without a secret signs")
	}
}

func TestMalformedSignatures(t *testing.T) {
	good := Request{Timestamp: "1531420618", Signature: Sign("x", "1531420618", nil)}
	if at, ok := plausible(good); !ok || at.Unix() != 1531420618 {
		t.Errorf("%v, %v", at, ok)
	}
	for _, stamp := range []string{"", "x", "+1531420618", " 1531420618", "01531420618", "1531420618.0", "99999999999999999999", "-0"} {
		if _, ok := plausible(Request{Timestamp: stamp, Signature: good.Signature}); ok {
			t.Errorf("the time %q is taken", stamp)
		}
	}
	for _, signature := range []string{"", "v0=", good.Signature + "0"} {
		if _, ok := plausible(Request{Timestamp: good.Timestamp, Signature: signature}); ok {
			t.Errorf("the signature %q is taken", signature)
		}
	}
}
