package channel

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The vector that the libraries of the Standard Webhooks project test with.
const (
	vectorSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorBody      = `{"test": 2432232314}`
	vectorSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

var vectorTime = time.Unix(1614265330, 0)

func TestSignVector(t *testing.T) {
	h, err := Sign([]string{vectorSecret}, vectorID, vectorTime, []byte(vectorBody))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"webhook-id": vectorID, "webhook-timestamp": "1614265330", "webhook-signature": vectorSignature} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if err := Verify([]string{vectorSecret}, h, []byte(vectorBody), vectorTime); err != nil {
		t.Error(err)
	}
}

func TestRotation(t *testing.T) {
	first, second, other := NewSecret(), NewSecret(), NewSecret()
	private, public := NewEd25519()
	if got, err := Public(private); err != nil || got != public {
		t.Errorf("public key %q, %v, want %q", got, err, public)
	}
	body := []byte(`{"type":"approval.opened"}`)
	h, err := Sign([]string{first, second, private}, "ntf_1", noon, body)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(h.Get(HeaderSignature), " "); len(got) != 3 || !strings.HasPrefix(got[2], "v1a,") {
		t.Errorf("signatures %q", got)
	}
	for name, c := range map[string]struct {
		keys []string
		good bool
	}{
		"first":  {[]string{first}, true},
		"second": {[]string{second}, true},
		"public": {[]string{public}, true},
		"among":  {[]string{other, second}, true},
		"other":  {[]string{other}, false},
		"none":   {nil, false},
	} {
		if err := Verify(c.keys, h, body, noon); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, stranger := NewEd25519()
	if Verify([]string{stranger}, h, body, noon) == nil {
		t.Error("another public key verifies")
	}
}

func TestVerifyRefuses(t *testing.T) {
	secret := NewSecret()
	private, public := NewEd25519()
	body := []byte(`{"a":1}`)
	good := func() http.Header {
		h, err := Sign([]string{secret, private}, "ntf_1", noon, body)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	sig := good().Get(HeaderSignature)
	v1, v1a, _ := strings.Cut(sig, " ")
	loose := func(s string) string { // the same bytes in another spelling
		b := []byte(s)
		alphabet := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
		i := len(b) - 2
		b[i] = alphabet[strings.IndexByte(alphabet, b[i])+1]
		return string(b)
	}
	if raw, err := base64.StdEncoding.DecodeString(loose(v1)[3:]); err != nil || base64.StdEncoding.EncodeToString(raw) != v1[3:] {
		t.Fatalf("not another spelling: %v", err)
	}
	set := func(name string, values ...string) func(http.Header) { return func(h http.Header) { h[name] = values } }
	for name, change := range map[string]func(http.Header){
		"no id":               set(HeaderID),
		"two ids":             set(HeaderID, "ntf_1", "ntf_1"),
		"empty id":            set(HeaderID, ""),
		"other id":            set(HeaderID, "ntf_2"),
		"id with dot":         set(HeaderID, "ntf_1."+strconv.FormatInt(noon.Unix(), 10)),
		"id with blank":       set(HeaderID, "ntf_1 "),
		"no time":             set(HeaderTimestamp),
		"two times":           set(HeaderTimestamp, strconv.FormatInt(noon.Unix(), 10), strconv.FormatInt(noon.Unix(), 10)),
		"time with sign":      set(HeaderTimestamp, "+"+strconv.FormatInt(noon.Unix(), 10)),
		"time with zero":      set(HeaderTimestamp, "0"+strconv.FormatInt(noon.Unix(), 10)),
		"time with blank":     set(HeaderTimestamp, " "+strconv.FormatInt(noon.Unix(), 10)),
		"fraction":            set(HeaderTimestamp, strconv.FormatInt(noon.Unix(), 10)+".0"),
		"negative":            set(HeaderTimestamp, "-1"),
		"huge":                set(HeaderTimestamp, strings.Repeat("9", 30)),
		"another time":        set(HeaderTimestamp, strconv.FormatInt(noon.Unix()+1, 10)),
		"date":                set(HeaderTimestamp, "2026-11-17T12:00:00Z"),
		"no signature":        set(HeaderSignature),
		"empty signature":     set(HeaderSignature, ""),
		"two headers":         set(HeaderSignature, v1, v1a),
		"twice":               set(HeaderSignature, v1+" "+v1),
		"no version":          set(HeaderSignature, v1[3:]),
		"empty version":       set(HeaderSignature, v1[2:]),
		"version only":        set(HeaderSignature, "v1,"),
		"unknown version":     set(HeaderSignature, "v2,"+v1[3:]),
		"hash as key version": set(HeaderSignature, "v1a,"+v1[3:]),
		"key as hash version": set(HeaderSignature, "v1,"+v1a[4:]),
		"short":               set(HeaderSignature, "v1,AAAA"),
		"spelling":            set(HeaderSignature, loose(v1)),
		"line break":          set(HeaderSignature, v1[:10]+"\n"+v1[10:]),
		"two blanks":          set(HeaderSignature, v1+"  "+v1a),
		"last blank":          set(HeaderSignature, v1+" "),
		"malformed neighbour": set(HeaderSignature, v1+" x"),
		"many":                set(HeaderSignature, sig+strings.Repeat(" v9,x", 20)),
	} {
		h := good()
		change(h)
		if err := Verify([]string{secret, public}, h, body, noon); err == nil {
			t.Errorf("%s: verified", name)
		}
	}
	h := good()
	h[HeaderSignature] = []string{"v9,later " + v1}
	if err := Verify([]string{secret}, h, body, noon); err != nil {
		t.Errorf("beside a version that is not known: %v", err)
	}
	for name, b := range map[string][]byte{"empty": nil, "blank": []byte(`{"a":1} `), "other": []byte(`{"a":2}`)} {
		if Verify([]string{secret}, good(), b, noon) == nil {
			t.Errorf("%s body verified", name)
		}
	}
	for off, want := range map[time.Duration]bool{
		0: true, Tolerance: true, -Tolerance: true, Tolerance + time.Second: false, -Tolerance - time.Second: false, 24 * 365 * time.Hour: false,
	} {
		if err := Verify([]string{secret}, good(), body, noon.Add(off)); (err == nil) != want {
			t.Errorf("%v away: %v", off, err)
		}
	}
}

func TestKeys(t *testing.T) {
	secret := NewSecret()
	private, public := NewEd25519()
	if secret == NewSecret() {
		t.Error("two secrets are the same")
	}
	size := func(prefix string, n int) string {
		return prefix + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, n))
	}
	forged := private[:len(private)-8] + "AAAAAA=="
	for name, key := range map[string]string{
		"empty": "", "prefix": "whsec_", "no prefix": secret[6:], "other prefix": "whxxx_" + secret[6:], "short": size("whsec_", 23),
		"long": size("whsec_", 65), "url": "whsec_" + strings.Repeat("-_", 20), "line break": secret + "\n",
		"seed alone": size("whsk_", 32), "forged": forged, "short public": size("whpk_", 31),
	} {
		_, err := Sign([]string{key}, "ntf_1", noon, nil)
		if err == nil {
			t.Errorf("%s signs", name)
		} else if len(key) > 12 && strings.Contains(err.Error(), key[6:]) {
			t.Errorf("%s: the error names the key: %v", name, err)
		}
		if err := Verify([]string{key}, http.Header{}, nil, noon); err == nil || !strings.Contains(err.Error(), "key 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, keys := range map[string][]string{"none": nil, "public": {public}, "twice": {secret, secret}, "many": make([]string, 17)} {
		if _, err := Sign(keys, "ntf_1", noon, nil); err == nil {
			t.Errorf("%s: signed", name)
		}
	}
	if err := Verify([]string{private}, http.Header{}, nil, noon); err == nil || !strings.Contains(err.Error(), "private") {
		t.Errorf("a receiver may hold a private key: %v", err)
	}
	for _, id := range []string{"", "a.b", "a b", "ü", "a\n"} {
		if _, err := Sign([]string{secret}, id, noon, nil); err == nil {
			t.Errorf("id %q is signed", id)
		}
	}
	if _, err := Sign([]string{secret}, "ntf_1", time.Time{}, nil); err == nil {
		t.Error("no time is signed")
	}
	if _, err := Public(secret); err == nil {
		t.Error("a shared secret has a public key")
	}
}

// TestSignedVerifies: what is signed verifies, and no longer once any of it has
// changed.
func TestSignedVerifies(t *testing.T) {
	private, public := NewEd25519()
	keys := map[string]string{vectorSecret: vectorSecret, private: public}
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.SampledFrom([]string{vectorSecret, private}).Draw(t, "secret")
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		id := rapid.StringMatching(`[!-\-/-~]{1,40}`).Draw(t, "id")
		at := time.Unix(rapid.Int64Range(1, 999_999_999_999).Draw(t, "at"), 0)
		h, err := Sign([]string{secret}, id, at, body)
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify([]string{keys[secret]}, h, body, at); err != nil {
			t.Fatal(err)
		}
		changed := append([]byte{}, body...)
		if i := rapid.IntRange(0, len(body)).Draw(t, "where"); i == len(body) {
			changed = append(changed, '}')
		} else {
			changed[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		}
		if Verify([]string{keys[secret]}, h, changed, at) == nil {
			t.Fatal("a changed body verifies")
		}
	})
}

// FuzzVerify: of what others send, nothing verifies but what was signed.
func FuzzVerify(f *testing.F) {
	f.Add(vectorID, "1614265330", vectorSignature, []byte(vectorBody))
	f.Add("", "", "", []byte(nil))
	f.Add("a", "1614265330", "v1, v1a,", []byte("."))
	f.Add(vectorID+".1614265330", "1614265330", "v9,x "+vectorSignature, []byte("x"))
	_, public := NewEd25519()
	f.Fuzz(func(t *testing.T, id, stamp, signature string, body []byte) {
		h := http.Header{HeaderID: {id}, HeaderTimestamp: {stamp}, HeaderSignature: {signature}}
		if err := Verify([]string{vectorSecret, public}, h, body, vectorTime); err != nil {
			return
		}
		seconds, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil {
			t.Fatalf("verified with the timestamp %q", stamp)
		}
		again, err := Sign([]string{vectorSecret}, id, time.Unix(seconds, 0), body)
		if err != nil {
			t.Fatalf("verified what could not be signed: %v", err)
		}
		if again.Get(HeaderTimestamp) != stamp || !strings.Contains(" "+signature+" ", " "+again.Get(HeaderSignature)+" ") {
			t.Fatalf("verified %q, %q, %q, %q", id, stamp, signature, body)
		}
	})
}
