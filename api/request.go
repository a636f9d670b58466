package api

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/gate"
	"holdpoint/internal/httpstatus"
	"holdpoint/internal/identity"
)

// authorize finds out who calls and whether they may.
func (a *API) authorize(c *call, scope string) error {
	if scope == public {
		return nil
	}
	text, hasKey := bearer(c.r)
	if !hasKey {
		if scope == signedIn || scope == keyOrHuman || scope == adminOrHuman || scope == auditOrHuman {
			person, ok, err := a.Person(c.r.WithContext(c.asked))
			if err != nil {
				return err
			}
			if ok {
				c.person, c.isPerson = person, true
				if scope == auditOrHuman && !auditlog.MayReadLog(person) {
					return &failure{Status: http.StatusForbidden, Code: "not_an_auditor", Detail: "Only auditors and administrators read the audit log."}
				}
				return nil
			}
		}
		return &failure{Status: http.StatusUnauthorized, Code: "unauthenticated", Detail: "Send an API key as “Authorization: Bearer hp_…”."}
	}
	p, ok, err := a.Keys.Authenticate(c.r.Context(), text)
	if err != nil {
		return err
	}
	if !ok {
		return &failure{Status: http.StatusUnauthorized, Code: "unauthenticated", Detail: "This API key is unknown, revoked or expired."}
	}
	c.principal = p
	if sent, ok := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer "); !ok || sent != text {
		c.r.Header.Set("Authorization", "Bearer "+text) // for what passes the request on (api/mcp)
	}
	if scope == signedIn {
		return &failure{Status: http.StatusForbidden, Code: "machine_principal", Detail: "Only a signed-in person can do this; no key can."}
	}
	if scope == keyOrHuman {
		scope = "approvals"
	}
	if scope == adminOrHuman {
		scope = "admin"
	}
	if scope == auditOrHuman {
		scope = "audit"
	}
	if scope != identity.ScopeSCIM && slices.Contains(p.Scopes, identity.ScopeSCIM) {
		return &failure{Status: http.StatusForbidden, Code: "scope_missing", Detail: "This key is for a directory, and for nothing else."}
	}
	if scope != anyKey && !slices.Contains(p.Scopes, scope) {
		return &failure{Status: http.StatusForbidden, Code: "scope_missing", Detail: fmt.Sprintf("This key does not have the scope %q.", scope)}
	}
	return nil
}

// aanaTokenHeader is where AANA's clients may put their key, instead of Authorization.
const aanaTokenHeader = "X-Aana-Token"

// bearer returns the request's API key. Where something was sent that is no key it is
// "": not good, rather than absent. Both headers may be there if they say the same.
func bearer(r *http.Request) (text string, sent bool) {
	values, tokens := r.Header.Values("Authorization"), r.Header.Values(aanaTokenHeader)
	switch {
	case len(values) == 0 && len(tokens) == 0:
		return "", false
	case len(values) > 1 || len(tokens) > 1:
		return "", true
	case len(values) == 0:
		return strings.TrimSpace(tokens[0]), true
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	text = strings.TrimSpace(text)
	if !strings.EqualFold(scheme, "Bearer") || len(tokens) == 1 && strings.TrimSpace(tokens[0]) != text {
		return "", true
	}
	return text, true
}

// readAll reads the body's bytes, of which there may be so many, into a buffer, which they belong to.
func readAll(c *call, body *bytes.Buffer) ([]byte, error) {
	// Room for all of it at once, which was waited for: growing by and by takes twice as
	// much, and four times as long.
	body.Grow(int(min(max(c.r.ContentLength, 0), canon.MaxBytes)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(c.w, c.r.Body, canon.MaxBytes))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, &failure{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Detail: fmt.Sprintf("The body may have at most %d bytes.", canon.MaxBytes)}
		}
		return nil, &failure{Status: http.StatusBadRequest, Code: "unreadable_body", Detail: "The body could not be read to its end."}
	}
	data := body.Bytes()
	if c.begin != nil {
		if err := c.begin(len(data)); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// ofType refuses a body of any other media type, or compressed.
func ofType(r *http.Request, want string) error {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return &failure{Status: http.StatusUnsupportedMediaType, Code: "content_encoding", Detail: "Send the body as it is, without a Content-Encoding."}
	}
	said := r.Header.Get("Content-Type")
	if said == want {
		return nil // as nearly always
	}
	kind, params, err := mime.ParseMediaType(said)
	if err != nil || kind != want || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return &failure{Status: http.StatusUnsupportedMediaType, Code: "content_type", Detail: "Send the body as Content-Type: " + want + "."}
	}
	return nil
}

// reading is what JSON is read by. A value shares nothing with it.
type reading struct {
	body   bytes.Buffer
	reader canon.Reader
}

// idle are those that nobody reads by.
var idle = sync.Pool{New: func() any { return new(reading) }}

// readJSON reads the body through the strict reader.
func readJSON(c *call) (canon.Value, error) {
	if err := ofType(c.r, "application/json"); err != nil {
		return canon.Value{}, err
	}
	with, _ := idle.Get().(*reading)
	with.body.Reset()
	defer func() {
		if with.body.Cap() <= 2*longBody {
			idle.Put(with)
		}
	}()
	data, err := readAll(c, &with.body)
	if err != nil {
		return canon.Value{}, err
	}
	v, err := with.reader.Parse(data)
	var syntax *canon.SyntaxError
	if errors.As(err, &syntax) {
		return v, &failure{
			Status: http.StatusBadRequest, Code: "malformed_json", Detail: fmt.Sprintf("The body is not JSON with exactly one reading: %s (at byte %d).", syntax.Message, syntax.Offset),
			Fields: []FieldError{{Path: syntax.Path, Message: syntax.Code + ": " + syntax.Message}},
		}
	}
	return v, err
}

// readInto reads the body into a struct: exactly its fields and those of what is
// in it, by their exact names, all those of its own there that are not omitempty.
func readInto(c *call, into any) (canon.Value, error) {
	v, err := readJSON(c)
	if err != nil {
		return v, err
	}
	if v.Kind() != canon.ObjectKind {
		return v, &failure{Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "The body must be a JSON object."}
	}
	var wrong []FieldError
	known := map[string]bool{}
	t := reflect.TypeOf(into).Elem()
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		known[name] = true
		if _, ok := v.Get(name); !ok && !strings.Contains(options, "omitempty") {
			wrong = append(wrong, FieldError{Path: "/" + name, Message: "is missing"})
		}
	}
	for _, m := range v.Members() {
		if !known[m.Name] {
			wrong = append(wrong, FieldError{Path: "/" + pointer(m.Name), Message: "is not a field of this request"})
		}
	}
	if path := unknownMember(v, t); wrong == nil && path != "" {
		wrong = append(wrong, FieldError{Path: path, Message: "is not a field of this request"})
	}
	if wrong == nil {
		err := json.Unmarshal(v.Canonical(), into)
		var kind *json.UnmarshalTypeError
		switch {
		case errors.As(err, &kind):
			wrong = append(wrong, FieldError{Path: "/" + strings.ReplaceAll(kind.Field, ".", "/"), Message: "must be " + kindName(kind.Type)})
		case err != nil: // a text that its type does not know, such as a level of trust
			wrong = append(wrong, FieldError{Message: fmt.Sprintf("has a value that is not known: %.200s", err.Error())})
		}
	}
	if wrong != nil {
		return v, &failure{Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "The body has not the fields that this request takes: " + wrong[0].Path + " " + wrong[0].Message + ".", Fields: wrong}
	}
	return v, nil
}

// unknownMember is the place of the first member that has no field, "" when all have.
func unknownMember(v canon.Value, t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return ""
	}
	switch {
	case v.Kind() == canon.ArrayKind && t.Kind() == reflect.Slice:
		for i, e := range v.Elements() {
			if path := unknownMember(e, t.Elem()); path != "" {
				return fmt.Sprintf("/%d%s", i, path)
			}
		}
	case v.Kind() == canon.ObjectKind && t.Kind() == reflect.Map:
		for name, e := range v.All() {
			if path := unknownMember(e, t.Elem()); path != "" {
				return "/" + pointer(name) + path
			}
		}
	case v.Kind() == canon.ObjectKind && t.Kind() == reflect.Struct:
		fields := map[string]reflect.Type{}
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			fields[name] = t.Field(i).Type
		}
		for name, e := range v.All() {
			field, ok := fields[name]
			if !ok {
				return "/" + pointer(name)
			}
			if path := unknownMember(e, field); path != "" {
				return "/" + pointer(name) + path
			}
		}
	}
	return ""
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	default:
		return "of another kind"
	}
}

// pointer escapes a name for a JSON Pointer, shortened: an unknown name may be anything.
func pointer(name string) string {
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "…"
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// request reads Idempotency-Key; nil without one. A key belongs to the credential
// that sent it, and to one request.
func (a *API) request(c *call, body canon.Value) (*access.Request, error) {
	values := c.r.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return nil, nil
	}
	key := values[0]
	if len(values) > 1 || key == "" || len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return nil, &failure{Status: http.StatusBadRequest, Code: "idempotency_key", Detail: "An Idempotency-Key is 1 to 255 visible ASCII characters, sent once."}
	}
	credential := c.principal.KeyID
	if c.isPerson {
		credential = c.person.ID
	}
	return &access.Request{
		Credential: credential, Key: key,
		Hash: a.Gate.Sealer.Request("request", c.r.Method, c.r.URL.Path, string(body.Canonical())),
	}, nil
}

// answer runs an operation that may be repeated and writes what render makes
// of its result.
func answer[T any](a *API, c *call, body canon.Value, do func(*access.Idempotency[T]) (T, error), render func(T) (access.Reply, error)) error {
	reply, err := replyTo(a, c, body, do, render)
	if err == nil {
		writeReply(c.w, reply)
	}
	return err
}

// checked is answer for a proposed call, to which an accepted one's token is added.
func checked[T any](a *API, c *call, body canon.Value, request gate.Request, do func(*access.Idempotency[T]) (T, error), render func(T) (access.Reply, error)) error {
	reply, err := replyTo(a, c, keyed(body, request), do, render)
	if request.WantToken {
		var replay *access.Replay
		if errors.As(err, &replay) {
			reply, err = replay.Reply, nil
			c.w.Header().Set("Idempotent-Replayed", "true")
		}
		if err == nil {
			reply, err = a.withToken(c, reply)
		}
	}
	if err == nil {
		writeReply(c.w, reply)
	}
	return err
}

// replyTo runs an operation that may be repeated, and renders what it returns.
func replyTo[T any](a *API, c *call, body canon.Value, do func(*access.Idempotency[T]) (T, error), render func(T) (access.Reply, error)) (access.Reply, error) {
	request, err := a.request(c, body)
	if err != nil {
		return access.Reply{}, err
	}
	return replyOnce(a, c, request, do, render)
}

// replyOnce is replyTo for a request whose key has been read; nil without one.
func replyOnce[T any](a *API, c *call, request *access.Request, do func(*access.Idempotency[T]) (T, error), render func(T) (access.Reply, error)) (access.Reply, error) {
	rendered := func(result T, err error) access.Reply {
		if err == nil {
			var reply access.Reply
			if reply, err = render(result); err == nil {
				return reply
			}
		}
		if f := a.failureOf(c.r, err); f != nil {
			return f.reply()
		}
		return access.Reply{Status: httpstatus.ClientGone} // nobody reads it
	}
	var once *access.Idempotency[T]
	if request != nil {
		once = &access.Idempotency[T]{Request: *request, Render: rendered}
	}
	result, err := do(once)
	if err != nil {
		return access.Reply{}, err
	}
	return rendered(result, nil), nil
}
