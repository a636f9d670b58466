package enforce

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"holdpoint/engine/canon"
	"holdpoint/engine/source"
)

// Routes say which requests are calls of which tools. They never change after Load.
type Routes []route

// route is one kind of request. The arguments of its call are the members of the body,
// the variables of the path and the parameters of the query, each of them by its name.
type route struct {
	tool, method string
	// path is the segments of the path; one in braces is a variable.
	path []string
	// query lists the parameters that may be there, and headers further headers that are
	// forwarded though they are no part of the call.
	query, headers []string
	// constraints says that the upstream keeps to what it is told in a header.
	constraints bool
}

// Load reads routes from a file in YAML or JSON:
//
//	routes:
//	  - tool: close_account
//	    method: DELETE
//	    path: /accounts/{account_id}
//	    query: [reason]          # may be left out, as may the rest
//	    headers: [If-Match]
//	    constraints: true
//
// The error names every mistake.
func Load(data []byte, file string) (Routes, error) {
	root, wrong := source.Read(data, source.Options{File: file})
	var errs []error
	for _, p := range wrong {
		errs = append(errs, errors.New(p.String()))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	mistake := func(n source.Node, format string, args ...any) {
		at := n.Position()
		errs = append(errs, fmt.Errorf("%s:%d:%d: %s", file, at.Line, at.Column, fmt.Sprintf(format, args...)))
	}
	list, there := root.Get("routes")
	if !there || list.Value.Kind() != canon.ArrayKind || list.Value.Len() == 0 || root.Value.Len() != 1 {
		mistake(root, "a file of routes has the list routes, and nothing else")
		return nil, errors.Join(errs...)
	}
	var routes Routes
	for i := range list.Value.Len() {
		n := list.Element(i)
		r, err := readRoute(n)
		if err != nil {
			mistake(n, "%s", err)
			continue
		}
		for _, other := range routes {
			if r.overlaps(other) {
				mistake(n, "a %s request could be this route's and that of %s: let their paths differ", r.method, other.tool)
			}
		}
		routes = append(routes, r)
	}
	return routes, errors.Join(errs...)
}

func readRoute(n source.Node) (r route, err error) {
	if n.Value.Kind() != canon.ObjectKind {
		return r, errors.New("a route is a mapping of tool, method, path, query, headers and constraints")
	}
	path := ""
	for name, v := range n.Value.All() {
		switch name {
		case "tool":
			r.tool = v.Str()
		case "method":
			r.method = v.Str()
		case "path":
			path = v.Str()
		case "query":
			r.query, err = names(v)
		case "headers":
			r.headers, err = names(v)
		case "constraints":
			if v.Kind() != canon.BoolKind {
				err = errors.New("want true or false")
			}
			r.constraints = v.Bool()
		default:
			err = errors.New("it is no key of a route: the keys are tool, method, path, query, headers and constraints")
		}
		if err != nil {
			return r, fmt.Errorf("%s: %w", source.Quote(name), err)
		}
	}
	for i, name := range r.headers {
		r.headers[i] = http.CanonicalHeaderKey(name)
		if slices.Contains(ours, r.headers[i]) {
			return r, fmt.Errorf("headers: %s is not forwarded", r.headers[i])
		}
	}
	r.path, err = segments(path)
	switch {
	case err != nil:
		return r, fmt.Errorf("path: %w", err)
	case r.tool == "":
		return r, errors.New("tool: want the tool's exact name")
	case !slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, r.method):
		return r, errors.New("method: want GET, HEAD, POST, PUT, PATCH or DELETE")
	}
	arguments := r.outsideBody()
	for i, name := range arguments {
		if name == "" || named(arguments[:i], name) {
			return r, errors.New("two variables or parameters have one name, capitals or not, or one has none")
		}
	}
	return r, nil
}

// outsideBody names the arguments that have their place in the path or the query.
func (r route) outsideBody() []string {
	list := slices.Clone(r.query)
	for _, s := range r.path {
		if name, variable := variable(s); variable {
			list = append(list, name)
		}
	}
	return list
}

// named reports whether a list has a name, capitals or not: many a server reads them alike.
func named(list []string, name string) bool {
	return slices.ContainsFunc(list, func(other string) bool { return strings.EqualFold(other, name) })
}

func names(v canon.Value) (list []string, err error) {
	if v.Kind() != canon.ArrayKind {
		return nil, errors.New("want a list of names")
	}
	for _, e := range v.Elements() {
		if e.Kind() != canon.StringKind || e.Str() == "" {
			return nil, errors.New("want a list of names")
		}
		list = append(list, e.Str())
	}
	return list, nil
}

func variable(segment string) (name string, ok bool) {
	name, opens := strings.CutPrefix(segment, "{")
	name, closes := strings.CutSuffix(name, "}")
	return name, opens && closes
}

// plain are the characters of a path that every server reads alike. All else, a per
// cent sign above all, may be one thing here and another behind.
const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~@:+,="

// segments parts a path. In a pattern, a segment may be a variable in braces.
func segments(path string) ([]string, error) {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil, errors.New("it has to begin with a slash")
	}
	if rest == "" {
		return nil, nil
	}
	parts := strings.Split(rest, "/")
	for _, p := range parts {
		name, isVariable := variable(p)
		if !isVariable {
			name = p
		}
		if p == "" || p == "." || p == ".." || strings.Trim(name, plain) != "" {
			return nil, errors.New("a segment of it is empty, . or .., or has other characters than letters, digits and -._~@:+,=")
		}
	}
	return parts, nil
}

func (r route) overlaps(other route) bool {
	if r.method != other.method || len(r.path) != len(other.path) {
		return false
	}
	for i, s := range r.path {
		_, a := variable(s)
		_, b := variable(other.path[i])
		if !a && !b && s != other.path[i] {
			return false
		}
	}
	return true
}

// call is what a request asks for.
type call struct {
	route
	arguments canon.Value
	// target is the path and the query that are forwarded.
	target url.URL
}

// refusal is a request that is not forwarded: the status, the code and the sentence of
// the problem that says so.
type refusal struct {
	status       int
	code, detail string
}

func (r *refusal) Error() string { return r.code + ": " + r.detail }

// problem is the refusal as a problem document (RFC 9457).
func (r *refusal) problem() map[string]any {
	return map[string]any{"type": "urn:holdpoint:problem:" + r.code, "title": http.StatusText(r.status), "status": r.status, "code": r.code, "detail": r.detail}
}

func refuse(status int, code, format string, args ...any) *refusal {
	return &refusal{status, code, fmt.Sprintf(format, args...)}
}

// match finds the route of a request, and the variables of its path.
func (rs Routes) match(r *http.Request) (found route, variables []canon.Member, err *refusal) {
	parts, wrong := segments(r.URL.EscapedPath())
	if wrong != nil {
		return found, nil, refuse(http.StatusBadRequest, "path_unclear", "The path can be read in more than one way: %s.", wrong)
	}
next:
	for _, candidate := range rs {
		if candidate.method != r.Method || len(candidate.path) != len(parts) {
			continue
		}
		variables = nil
		for i, s := range candidate.path {
			name, isVariable := variable(s)
			switch {
			case isVariable:
				variables = append(variables, canon.Member{Name: name, Value: canon.String(parts[i])})
			case s != parts[i]:
				continue next
			}
		}
		return candidate, variables, nil
	}
	return found, nil, refuse(http.StatusNotFound, "no_such_route", "No tool is reached by this method at this path.")
}

// read reads the call that a request with this body asks for.
func (rs Routes) read(r *http.Request, body []byte) (call, *refusal) {
	found, members, err := rs.match(r)
	if err != nil {
		return call{}, err
	}
	query, wrong := url.ParseQuery(r.URL.RawQuery)
	if wrong != nil {
		return call{}, refuse(http.StatusBadRequest, "bad_query", "The query cannot be read.")
	}
	for name, values := range query {
		switch {
		case !slices.Contains(found.query, name):
			return call{}, refuse(http.StatusBadRequest, "unknown_parameter", "The query has a parameter that is no argument of the tool.")
		case len(values) != 1:
			return call{}, refuse(http.StatusBadRequest, "bad_query", "A parameter is there twice.")
		}
		members = append(members, canon.Member{Name: name, Value: canon.String(values[0])})
	}
	if len(body) > 0 {
		v, wrong := canon.Parse(body)
		switch {
		case wrong != nil:
			return call{}, refuse(http.StatusBadRequest, "malformed_json", "The body is not JSON with exactly one reading: %s.", wrong)
		case v.Kind() != canon.ObjectKind:
			return call{}, refuse(http.StatusUnprocessableEntity, "invalid_body", "The body has to be a JSON object: its members are the arguments.")
		}
		// Also a parameter that this request leaves out: in the body it would be the same
		// call to people, and another one to the upstream.
		outside := found.outsideBody()
		for _, m := range v.Members() {
			if named(outside, m.Name) {
				return call{}, refuse(http.StatusUnprocessableEntity, "argument_twice", "An argument is in the body, and its place is the path or the query.")
			}
			members = append(members, m)
		}
	}
	return call{route: found, arguments: canon.Object(members...), target: url.URL{Path: r.URL.Path, RawQuery: query.Encode()}}, nil
}
