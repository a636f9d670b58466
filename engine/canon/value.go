package canon

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind is the sort of a JSON value.
type Kind uint8

// The six kinds. The zero Kind is Null.
const (
	NullKind Kind = iota
	BoolKind
	NumberKind
	StringKind
	ArrayKind
	ObjectKind
)

var kindNames = [...]string{"null", "boolean", "number", "string", "array", "object"}

// String is the kind's name in JSON Schema: null, boolean, number, string,
// array or object.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Value is one JSON value and everything below it. It never changes: no method
// hands out memory that a caller could write to. The zero Value is null. A
// Value holds nothing that Parse would refuse, except that the constructors do
// not bound size and depth.
//
// Formatting a Value with fmt shows its kind and size, never its content.
type Value struct {
	kind Kind
	num  float64 // a number; 1 for true
	str  string
	box  *box // what an array or object holds; nil when it is empty
}

// box keeps the elements or the members of one container. It is separate to
// keep Value small: most values are strings.
type box struct {
	elems   []Value
	members []Member
}

// Member is one name and value of an object.
type Member struct {
	Name  string
	Value Value
}

// Null is the JSON null, the zero Value.
func Null() Value { return Value{} }

// Bool is true or false.
func Bool(b bool) Value {
	v := Value{kind: BoolKind}
	if b {
		v.num = 1
	}
	return v
}

// Number is a finite number. A negative zero becomes zero, as in RFC 8785. It
// panics on NaN and the infinities, which JSON does not have.
func Number(f float64) Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		panic("canon.Number: not a finite number")
	}
	if f == 0 {
		f = 0 // -0 == 0 too
	}
	return Value{kind: NumberKind, num: f}
}

// String is a string. It panics if s is not valid UTF-8 or holds a NUL, which
// Parse would refuse; text from outside has to be checked before.
func String(s string) Value {
	mustText("canon.String", s)
	return Value{kind: StringKind, str: s}
}

// Array is an array of copies of elems.
func Array(elems ...Value) Value {
	v := Value{kind: ArrayKind}
	if len(elems) > 0 {
		v.box = &box{elems: slices.Clone(elems)}
	}
	return v
}

// Object is an object of copies of members, in their order. It panics if a
// name is not valid UTF-8, holds a NUL, or equals another one but for case.
func Object(members ...Member) Value {
	v := Value{kind: ObjectKind}
	if len(members) == 0 {
		return v
	}
	var names nameSet
	for i, m := range members {
		mustText("canon.Object", m.Name)
		if names.add(members[:i], m.Name) >= 0 {
			panic("canon.Object: two members of one name")
		}
	}
	v.box = &box{members: slices.Clone(members)}
	return v
}

// Map is the object of what change makes of each member's value, without those of which it says no. Names stay as
// they are and are not looked at again: ParseExact reads some that differ only by case. It panics if v is not an object.
func (v Value) Map(change func(name string, value Value) (changed Value, stays bool)) Value {
	if v.kind != ObjectKind {
		panic("canon.Map: not an object")
	}
	var members []Member
	for name, value := range v.All() {
		if changed, stays := change(name, value); stays {
			members = append(members, Member{Name: name, Value: changed})
		}
	}
	if len(members) == 0 {
		return Value{kind: ObjectKind}
	}
	return Value{kind: ObjectKind, box: &box{members: members}}
}

// With is the object with further members at its end. It panics where Object does,
// and if v is not an object; the members that v has are not looked at again.
func (v Value) With(more ...Member) Value {
	members := v.with(make([]Member, 0, v.Len()+len(more)), more)
	return Value{kind: ObjectKind, box: &box{members: members}}
}

// with appends the members of the object v and more to members.
func (v Value) with(members, more []Member) []Member {
	if v.kind != ObjectKind {
		panic("canon.With: not an object")
	}
	if v.box != nil {
		members = append(members, v.box.members...)
	}
	for _, m := range more {
		mustText("canon.With", m.Name)
		for i := range members {
			if strings.EqualFold(members[i].Name, m.Name) {
				panic("canon.With: two members of one name")
			}
		}
		members = append(members, m)
	}
	return members
}

func mustText(caller, s string) {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		panic(caller + ": text is not valid UTF-8 or holds a NUL")
	}
}

// Kind is the value's kind.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether the value is null.
func (v Value) IsNull() bool { return v.kind == NullKind }

// Bool is the value of a boolean, and false for any other kind.
func (v Value) Bool() bool { return v.kind == BoolKind && v.num != 0 }

// Str is the unescaped text of a string, and "" for any other kind.
func (v Value) Str() string { return v.str }

// Float is the value of a number, and 0 for any other kind.
func (v Value) Float() float64 {
	if v.kind != NumberKind {
		return 0
	}
	return v.num
}

// Int is the value of a number that is whole and one number to every reader: less
// than 2^53, whatever its sign. It is false for any other value.
func (v Value) Int() (int64, bool) {
	f := v.Float()
	if v.kind != NumberKind || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Len is the number of elements of an array or members of an object, and 0 for
// any other kind.
func (v Value) Len() int {
	if v.box == nil {
		return 0
	}
	return len(v.box.elems) + len(v.box.members)
}

// At is the array's element i, counted from 0. Like a slice index it panics
// when there is none.
func (v Value) At(i int) Value {
	if v.kind != ArrayKind || v.box == nil {
		panic("canon.At: no such element")
	}
	return v.box.elems[i]
}

// Elements walks through an array's elements in order. Other kinds have none.
func (v Value) Elements() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if v.box == nil {
			return
		}
		for i, e := range v.box.elems {
			if !yield(i, e) {
				return
			}
		}
	}
}

// Members is a copy of an object's members in document order; the caller may
// keep and change it. Other kinds have none.
func (v Value) Members() []Member {
	if v.box == nil {
		return nil
	}
	return slices.Clone(v.box.members)
}

// All walks through an object's members in document order, without copying.
// Other kinds have none.
func (v Value) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.box == nil {
			return
		}
		for i := range v.box.members {
			m := &v.box.members[i]
			if !yield(m.Name, m.Value) {
				return
			}
		}
	}
}

// Get is the object's member of exactly this name, in time linear in the
// number of members. It is null and false when there is none, or when v is
// not an object.
func (v Value) Get(name string) (Value, bool) {
	if v.box == nil {
		return Value{}, false
	}
	for i := range v.box.members {
		if m := &v.box.members[i]; m.Name == name {
			return m.Value, true
		}
	}
	return Value{}, false
}

// String shows the kind, and for containers the size. It is for messages and
// logs, which must not hold what agents send; Canonical is the content.
func (v Value) String() string {
	switch v.kind {
	case ArrayKind, ObjectKind:
		return fmt.Sprintf("%s(%d)", v.kind, v.Len())
	case NullKind, BoolKind, NumberKind, StringKind:
	}
	return v.kind.String()
}

// GoString is String; it keeps %#v from showing the content.
func (v Value) GoString() string { return "canon." + v.String() }
