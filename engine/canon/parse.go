package canon

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// The bounds of a document. They are inclusive.
const (
	// MaxBytes is the size of the largest document: 1 MiB.
	MaxBytes = 1 << 20
	// MaxDepth is the largest number of arrays and objects inside each other;
	// a lone scalar has depth 0.
	MaxDepth = 64
	// MaxMembers is the largest number of members of one object.
	MaxMembers = 10_000
	// MaxValues is the largest number of values of all kinds in one document.
	// It bounds the memory of a Value to a few MiB: without it a document of
	// MaxBytes could hold half a million values.
	MaxValues = 100_000
)

// Parse reads a whole document. It takes time linear in its size, whatever it
// holds. The Value shares no memory with data, which the caller may reuse.
// Every error is a *SyntaxError and describes the first thing that is wrong.
func Parse(data []byte) (Value, error) { return new(Reader).Parse(data) }

// ParseExact is Parse, but for names that differ only by case: those are different
// names to it. It is for comparing a dialect's rules with other implementations of
// them, and no door reads by it.
func ParseExact(data []byte) (Value, error) { return new(Reader).parse(data, true) }

// Reader reads one document after the other, and uses the same memory while it reads: no Value is
// in it, and nothing of a document that has been read. The zero Reader is ready. It is not safe
// for concurrent use.
type Reader struct{ open open }

// Parse is the function of that name.
func (r *Reader) Parse(data []byte) (Value, error) { return r.parse(data, false) }

func (r *Reader) parse(data []byte, exact bool) (Value, error) {
	if len(data) > MaxBytes {
		return Value{}, &SyntaxError{
			Offset: MaxBytes, Code: TooLarge,
			Message: "a document may have at most " + strconv.Itoa(MaxBytes) + " bytes",
		}
	}
	for _, mark := range [...]string{"\xEF\xBB\xBF", "\xFE\xFF", "\xFF\xFE"} {
		if bytes.HasPrefix(data, []byte(mark)) {
			return Value{}, &SyntaxError{Code: ByteOrderMark, Message: "a document must not begin with a byte order mark"}
		}
	}
	// The one copy: all strings without escapes are parts of it.
	p := parser{text: string(data), exact: exact, open: &r.open}
	defer r.open.forget()
	// No object has a member without a colon: most documents need no more than this.
	if colons := strings.Count(p.text, ":"); colons > 0 {
		p.ended.members = make([]Member, min(colons, sharedMost))
	}
	v, err := p.value(0)
	if err != nil {
		return Value{}, err
	}
	if p.skipSpace(); p.pos < len(p.text) {
		return Value{}, p.fail(TrailingData, "something follows the end of the document")
	}
	return v, nil
}

// parser reads text from pos on.
type parser struct {
	text   string
	exact  bool // of names
	pos    int
	values int // values begun so far
	open   *open
	ended  ended
}

// open are two stacks, on top of which containers that have not ended keep what they
// hold so far. No Value is in them: what has ended is copied.
type open struct {
	elems   []Value
	members []Member
}

// mostKept is how many places stacks may have together that are used again.
const mostKept = 512

// forget leaves room for the next document, and nothing of this one.
func (o *open) forget() {
	if cap(o.elems)+cap(o.members) > mostKept {
		*o = open{}
		return
	}
	clear(o.elems[:cap(o.elems)])
	clear(o.members[:cap(o.members)])
	o.elems, o.members = o.elems[:0], o.members[:0]
}

// ended is where containers are kept that have ended: small ones share an allocation.
type ended struct {
	elems   []Value
	members []Member
	boxes   []box
}

// shared is how many values, members or containers share an allocation at first, and at most.
const (
	sharedFirst = 8
	sharedMost  = 64
)

// cut takes room for n from what is free, which is allocated anew where there is too
// little: twice as much each time, and alone for what is long.
func cut[T any](free *[]T, n int) []T {
	if n > sharedMost/2 {
		return make([]T, n)
	}
	if n > len(*free) {
		*free = make([]T, max(n, min(2*cap(*free), sharedMost), sharedFirst))
	}
	taken := (*free)[:n:n]
	*free = (*free)[n:]
	return taken
}

// room doubles a full stack: append alone would grow a long one by a quarter, time and
// again, and leave five times its size behind.
func room[T any](stack []T) []T {
	if len(stack) == cap(stack) {
		return slices.Grow(stack, max(len(stack), fewNames))
	}
	return stack
}

func (p *parser) fail(code, message string) *SyntaxError {
	return &SyntaxError{Offset: p.pos, Code: code, Message: message}
}

// unexpected is the error for a byte that no grammar rule allows here.
func (p *parser) unexpected(wanted string) *SyntaxError {
	if p.pos >= len(p.text) {
		return p.fail(Syntax, "the document ends where "+wanted+" should be")
	}
	if p.text[p.pos] == 0 {
		return p.fail(NULCharacter, "the document holds a NUL byte")
	}
	return p.fail(Syntax, "there is something else where "+wanted+" should be")
}

// skipSpace moves to the next byte that is not white space, and returns it, or
// 0 at the end.
func (p *parser) skipSpace() byte {
	for ; p.pos < len(p.text); p.pos++ {
		if c := p.text[p.pos]; c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

// value reads one value that is inside of depth containers.
func (p *parser) value(depth int) (Value, *SyntaxError) {
	if p.values++; p.values > MaxValues {
		return Value{}, p.fail(TooManyValues, "a document may hold at most "+strconv.Itoa(MaxValues)+" values")
	}
	switch c := p.skipSpace(); c {
	case '"':
		s, err := p.stringToken()
		return Value{kind: StringKind, str: s}, err
	case '{':
		if depth >= MaxDepth {
			return Value{}, p.tooDeep()
		}
		return p.object(depth + 1)
	case '[':
		if depth >= MaxDepth {
			return Value{}, p.tooDeep()
		}
		return p.array(depth + 1)
	case 't':
		return Value{kind: BoolKind, num: 1}, p.literal("true")
	case 'f':
		return Value{kind: BoolKind}, p.literal("false")
	case 'n':
		return Value{}, p.literal("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		f, err := p.numberToken()
		return Value{kind: NumberKind, num: f}, err
	default:
		return Value{}, p.unexpected("a value")
	}
}

func (p *parser) tooDeep() *SyntaxError {
	return p.fail(TooDeep, "more than "+strconv.Itoa(MaxDepth)+" arrays and objects are inside each other")
}

func (p *parser) literal(word string) *SyntaxError {
	if !strings.HasPrefix(p.text[p.pos:], word) {
		return p.unexpected("a value")
	}
	p.pos += len(word)
	return nil
}

func (p *parser) array(depth int) (Value, *SyntaxError) {
	p.pos++ // [
	if p.skipSpace() == ']' {
		p.pos++
		return Value{kind: ArrayKind}, nil
	}
	base := len(p.open.elems)
	for {
		v, err := p.value(depth)
		if err != nil {
			return Value{}, err.under(strconv.Itoa(len(p.open.elems) - base))
		}
		p.open.elems = append(room(p.open.elems), v)
		switch p.skipSpace() {
		case ',':
			p.pos++
			continue
		case ']':
			p.pos++
		default:
			return Value{}, p.unexpected("a comma or the end of the array")
		}
		break
	}
	b := &cut(&p.ended.boxes, 1)[0]
	b.elems = cut(&p.ended.elems, len(p.open.elems)-base)
	copy(b.elems, p.open.elems[base:])
	p.open.elems = p.open.elems[:base]
	return Value{kind: ArrayKind, box: b}, nil
}

func (p *parser) object(depth int) (Value, *SyntaxError) {
	p.pos++ // {
	if p.skipSpace() == '}' {
		p.pos++
		return Value{kind: ObjectKind}, nil
	}
	base := len(p.open.members)
	names := nameSet{exact: p.exact}
	for {
		if p.skipSpace() != '"' {
			return Value{}, p.unexpected("the name of a member")
		}
		start := p.pos
		name, err := p.stringToken()
		if err != nil {
			return Value{}, err
		}
		if err := p.checkName(&names, p.open.members[base:], name, start); err != nil {
			return Value{}, err
		}
		if p.skipSpace() != ':' {
			return Value{}, p.unexpected("a colon").under(name)
		}
		p.pos++
		v, err := p.value(depth)
		if err != nil {
			return Value{}, err.under(name)
		}
		p.open.members = append(room(p.open.members), Member{name, v})
		switch p.skipSpace() {
		case ',':
			p.pos++
			continue
		case '}':
			p.pos++
		default:
			return Value{}, p.unexpected("a comma or the end of the object")
		}
		break
	}
	b := &cut(&p.ended.boxes, 1)[0]
	b.members = cut(&p.ended.members, len(p.open.members)-base)
	copy(b.members, p.open.members[base:])
	p.open.members = p.open.members[:base]
	return Value{kind: ObjectKind, box: b}, nil
}

// checkName refuses a name that an earlier member has, and too many members.
// start is the name's own offset, which is where the error is.
func (p *parser) checkName(names *nameSet, before []Member, name string, start int) *SyntaxError {
	if len(before) >= MaxMembers {
		return &SyntaxError{
			Offset: start, Code: TooManyMembers,
			Message: "an object may have at most " + strconv.Itoa(MaxMembers) + " members",
		}
	}
	i := names.add(before, name)
	if i < 0 {
		return nil
	}
	err := &SyntaxError{Offset: start, Code: CaseVariantKey, Message: "two members of one object have names that differ only by case"}
	if before[i].Name == name {
		err.Code, err.Message = DuplicateKey, "two members of one object have the same name"
	}
	return err.under(name)
}
