package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"holdpoint/api/scim"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/identity"
)

// directoryDoor takes what a provider's directory tells of people and groups (SCIM 2.0).
// It is described by its own /Schemas, and not by the OpenAPI document.
type directoryDoor struct{ *API }

const scimPath = "/scim/v2"

// scimReply is an answer; a nil body is none.
type scimReply struct {
	status int
	body   scim.Resource
}

func scimOK(body scim.Resource) (scimReply, error) { return scimReply{http.StatusOK, body}, nil }

// register puts the routes on a mux.
func (d directoryDoor) register(mux *http.ServeMux) {
	for pattern, handle := range map[string]func(*call) (scimReply, error){
		"GET /ServiceProviderConfig": func(*call) (scimReply, error) { return scimOK(scim.Config(d.base())) },
		"GET /ResourceTypes":         d.described(scim.Types),
		"GET /ResourceTypes/{id}":    d.described(scim.Types),
		"GET /Schemas":               d.described(scim.Schemas),
		"GET /Schemas/{id}":          d.described(scim.Schemas),
		"GET /Users":                 d.listUsers,
		"POST /Users":                d.addUser,
		"GET /Users/{id}":            d.getUser,
		"PUT /Users/{id}":            d.putUser,
		"PATCH /Users/{id}":          d.patchUser,
		"DELETE /Users/{id}":         d.deleteUser,
		"GET /Groups":                d.listGroups,
		"POST /Groups":               d.addGroup,
		"GET /Groups/{id}":           d.getGroup,
		"PUT /Groups/{id}":           d.putGroup,
		"PATCH /Groups/{id}":         d.patchGroup,
		"DELETE /Groups/{id}":        d.deleteGroup,
		"/":                          noSuchResource,
		"":                           noSuchResource, // and not a redirect in HTML
	} {
		method, path, methods := strings.Cut(pattern, " ")
		if !methods {
			method, path = "", pattern
		}
		mux.Handle(strings.TrimSpace(method+" "+scimPath+path), d.serve(handle))
	}
}

func (d directoryDoor) base() string { return strings.TrimSuffix(d.PublicURL, "/") + scimPath }

func noSuchResource(c *call) (scimReply, error) {
	switch strings.TrimPrefix(c.r.URL.Path, scimPath) {
	case "/Me", "/Bulk", "/.search", "/Users/.search", "/Groups/.search":
		return scimReply{}, &failure{Status: http.StatusNotImplemented, Code: "not_supported", Detail: "This part of SCIM is not supported; see " + scimPath + "/ServiceProviderConfig."}
	}
	return scimReply{}, &failure{Status: http.StatusNotFound, Code: "no_such_route", Detail: "There is nothing at this address for this method."}
}

// described answers with descriptions of a kind, or the one that is asked for. They are not
// filtered (RFC 7644, section 4).
func (d directoryDoor) described(list func(base string) []scim.Resource) func(*call) (scimReply, error) {
	return func(c *call) (scimReply, error) {
		if c.r.URL.Query().Has("filter") {
			return scimReply{}, &failure{Status: http.StatusForbidden, Code: "not_filtered", Detail: "Descriptions are not filtered."}
		}
		id := c.r.PathValue("id")
		if id == "" {
			return scimOK(scim.List(list(d.base()), 1, scim.MostResults))
		}
		if r := scim.Named(list(d.base()), id); r != nil {
			return scimOK(r)
		}
		return noSuchResource(c)
	}
}

// serve lets the directory's own key in, and answers in SCIM's form.
func (d directoryDoor) serve(handle func(*call) (scimReply, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
		defer cancel()
		r = r.WithContext(ctx)
		c := &call{w: w, r: r, asked: r.Context()}
		err := d.authorize(c, identity.ScopeSCIM)
		var reply scimReply
		if err == nil {
			var leave func()
			if leave, err = d.admit(c, operation{}); err == nil {
				defer leave()
				reply, err = handle(c)
			}
		}
		if err != nil {
			d.failSCIM(w, r, c.principal, err)
			return
		}
		d.write(w, reply)
	})
}

func (d directoryDoor) write(w http.ResponseWriter, reply scimReply) {
	out := access.Reply{Status: reply.status, Header: map[string]string{}}
	if reply.body != nil {
		body, err := json.Marshal(reply.body)
		if err != nil {
			out.Status = http.StatusInternalServerError // texts, numbers and booleans always encode
		}
		out.Body, out.Header["Content-Type"] = append(body, '\n'), scim.MediaType
		if meta, ok := reply.body["meta"].(map[string]any); ok && reply.status == http.StatusCreated {
			out.Header["Location"], _ = meta["location"].(string)
		}
	}
	writeReply(w, out)
}

// scimTypes are SCIM's names of what the rest of Holdpoint refuses.
var scimTypes = map[string]string{
	"directory_conflict": "uniqueness", "local_account": "uniqueness", "former_account": "uniqueness", "email_taken": "uniqueness", "malformed_json": "invalidSyntax",
}

// failSCIM answers with an error of RFC 7644, section 3.12.
func (d directoryDoor) failSCIM(w http.ResponseWriter, r *http.Request, p access.Principal, err error) {
	kind := ""
	var bad *scim.Error
	if errors.As(err, &bad) {
		kind, err = bad.Type, &failure{Status: http.StatusBadRequest, Code: bad.Type, Detail: bad.Detail}
	}
	f := d.failureOf(r, err)
	if f == nil {
		return // the caller has gone
	}
	var ours *failure
	if errors.As(err, &ours) && f.Status < http.StatusInternalServerError {
		// The detail may quote an address, and the log is for ever.
		d.recordTurnedAway(r, p, &failure{Status: f.Status, Code: f.Code, Detail: "A request of a directory was turned away."})
	}
	reply := f.reply()
	if f.Status == http.StatusUnprocessableEntity { // it is none of SCIM's
		reply.Status, kind = http.StatusBadRequest, "invalidValue"
	}
	if scimTypes[f.Code] != "" {
		kind = scimTypes[f.Code]
	}
	said := scim.Resource{"schemas": []any{scim.ErrorSchema}, "status": strconv.Itoa(reply.Status), "detail": f.Detail}
	if kind != "" {
		said["scimType"] = kind
	}
	reply.Header["Content-Type"] = scim.MediaType
	if body, err := json.Marshal(said); err == nil {
		reply.Body = append(body, '\n')
	}
	writeReply(w, reply)
}

// body reads a body through the strict reader.
func (d directoryDoor) body(c *call) (map[string]any, error) {
	kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err == nil && kind == scim.MediaType {
		c.r.Header.Set("Content-Type", "application/json") // and it is nothing else
	}
	v, err := readJSON(c)
	if err != nil {
		return nil, err
	}
	if v.Kind() != canon.ObjectKind {
		return nil, &scim.Error{Type: "invalidSyntax", Detail: "The body has to be an object."}
	}
	body := map[string]any{}
	return body, json.Unmarshal(v.Canonical(), &body)
}

// resource reads a body that is a resource of a kind.
func (d directoryDoor) resource(c *call, kind *scim.Kind) (scim.Resource, error) {
	body, err := d.body(c)
	if err != nil {
		return nil, err
	}
	return kind.Read(body), nil
}

func (c *call) administrator() access.Initiator {
	return c.principal.Initiator(RequestID(c.r.Context()))
}

// scimQuery is what a request wants to see.
type scimQuery struct {
	selection    scim.Selection
	filter       *scim.Filter
	exact, text  string // the attribute that the filter wants to equal a text
	start, count int
}

func askedFor(c *call, kind *scim.Kind) (q scimQuery, err error) {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return q, &scim.Error{Type: "invalidSyntax", Detail: "The query cannot be read."}
	}
	if q.selection, err = kind.Select(query.Get("attributes"), query.Get("excludedAttributes")); err != nil {
		return q, err
	}
	if q.filter, err = kind.Filter(strings.TrimSpace(query.Get("filter"))); err != nil {
		return q, err
	}
	q.exact, q.text = kind.Exact(query.Get("filter"))
	for name, into := range map[string]*int{"startIndex": &q.start, "count": &q.count} {
		if *into = 1; name == "count" {
			*into = defaultCount
		}
		if text := query.Get(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return q, scim.InvalidValue("%s has to be a whole number.", name)
			}
			*into = int(n)
		}
	}
	return q, nil
}

const defaultCount = 100

// page is the answer to a list.
func (q scimQuery) page(all []scim.Resource) (scimReply, error) {
	var found []scim.Resource
	for _, r := range all {
		if q.filter.Match(r) {
			found = append(found, q.selection.Of(r))
		}
	}
	return scimOK(scim.List(found, q.start, q.count))
}

// one is the answer that is a single resource.
func one(c *call, kind *scim.Kind, status int, r scim.Resource) (scimReply, error) {
	q, err := askedFor(c, kind)
	if err != nil {
		return scimReply{}, err
	}
	return scimReply{status, q.selection.Of(r)}, nil
}

func (d directoryDoor) userResource(u admin.DirectoryUser) scim.Resource {
	r := scim.Resource{
		"schemas": []any{scim.UserSchema}, "id": u.ID, "userName": u.UserName, "displayName": u.Name, "name": nameObject(u), "active": !u.Disabled,
		"emails": []any{map[string]any{"value": u.Email, "type": "work", "primary": true}},
		"meta": map[string]any{
			"resourceType": "User", "created": scim.Time(u.CreatedAt), "lastModified": scim.Time(u.ChangedAt), "location": d.base() + "/Users/" + u.ID,
		},
	}
	if u.ExternalID != "" {
		r["externalId"] = u.ExternalID
	}
	var groups []any
	for _, g := range u.Groups {
		groups = append(groups, map[string]any{"value": g.ID, "display": g.Name, "type": "direct", "$ref": d.base() + "/Groups/" + g.ID})
	}
	if groups != nil {
		r["groups"] = groups
	}
	return r
}

// nameObject is somebody's name in parts.
func nameObject(u admin.DirectoryUser) map[string]any {
	o := map[string]any{"formatted": cmp.Or(fullName(u.Parts), u.Name)}
	for sub, part := range map[string]string{"givenName": u.Parts.Given, "familyName": u.Parts.Family} {
		if part != "" {
			o[sub] = part
		}
	}
	return o
}

// fullName is what parts make, "" where there are none.
func fullName(p admin.NameParts) string {
	return cmp.Or(p.Formatted, strings.TrimSpace(p.Given+" "+p.Family))
}

// userEntry is what a resource says of somebody.
func userEntry(r scim.Resource) (e admin.UserEntry, err error) {
	for name, into := range map[string]*string{"userName": &e.UserName, "externalId": &e.ExternalID, "displayName": &e.Name} {
		if *into, err = r.Text(name); err != nil {
			return e, err
		}
	}
	if e.Active, err = r.Bool("active"); err != nil {
		return e, err
	}
	for sub, into := range map[string]*string{"formatted": &e.Parts.Formatted, "givenName": &e.Parts.Given, "familyName": &e.Parts.Family} {
		if *into, err = r.Inner("name", sub); err != nil {
			return e, err
		}
	}
	if whole := (admin.NameParts{Given: e.Parts.Given, Family: e.Parts.Family}); e.Parts.Formatted == fullName(whole) {
		e.Parts = whole // and it follows them
	}
	e.Name = cmp.Or(e.Name, fullName(e.Parts))
	e.Email, err = address(r, e.UserName)
	return e, err
}

// patchedEntry is what a resource says after a patch of somebody, in which is also what
// there was. A name that was made of others follows them, unless it is patched itself.
func patchedEntry(r scim.Resource, now admin.DirectoryUser) (admin.UserEntry, error) {
	e, err := userEntry(r)
	if err != nil {
		return e, err
	}
	if e.Parts.Formatted == cmp.Or(fullName(now.Parts), now.Name) {
		e.Parts.Formatted = now.Parts.Formatted
	}
	was, is := fullName(now.Parts), fullName(e.Parts)
	follows := was == now.Name || was == "" && (e.Parts.Formatted != "" || e.Parts.Given != "" && e.Parts.Family != "")
	if e.Name == now.Name && is != "" && follows {
		e.Name = is
	}
	return e, nil
}

// address is the primary e-mail address, or the first, or the name of the user.
func address(r scim.Resource, userName string) (string, error) {
	emails, err := r.Values("emails")
	if err != nil || len(emails) == 0 {
		return userName, err
	}
	found := emails[0]
	for _, e := range emails {
		primary, err := e.Bool("primary")
		if err != nil {
			return "", err
		}
		if primary != nil && *primary {
			found = e
			break
		}
	}
	return found.Text("value")
}

func (d directoryDoor) listUsers(c *call) (scimReply, error) {
	q, err := askedFor(c, scim.User)
	if err != nil {
		return scimReply{}, err
	}
	var narrow admin.DirectoryUserQuery
	switch q.exact {
	case "id":
		narrow.ID = q.text
	case "userName":
		narrow.UserName = q.text
	case "externalId":
		narrow.ExternalID = q.text
	}
	list, err := d.Admin.Directory.Users(c.r.Context(), narrow)
	if err != nil {
		return scimReply{}, err
	}
	var all []scim.Resource
	for _, u := range list {
		all = append(all, d.userResource(u))
	}
	return q.page(all)
}

func (d directoryDoor) getUser(c *call) (scimReply, error) {
	u, err := d.Admin.Directory.User(c.r.Context(), c.r.PathValue("id"))
	if err != nil {
		return scimReply{}, err
	}
	return one(c, scim.User, http.StatusOK, d.userResource(u))
}

func (d directoryDoor) addUser(c *call) (scimReply, error) {
	r, err := d.resource(c, scim.User)
	if err != nil {
		return scimReply{}, err
	}
	e, err := userEntry(r)
	if err != nil {
		return scimReply{}, err
	}
	u, err := d.Admin.Directory.AddUser(c.r.Context(), c.administrator(), e)
	if err != nil {
		return scimReply{}, err
	}
	return one(c, scim.User, http.StatusCreated, d.userResource(u))
}

func (d directoryDoor) putUser(c *call) (scimReply, error) {
	r, err := d.resource(c, scim.User)
	if err != nil {
		return scimReply{}, err
	}
	return d.changeUser(c, func(admin.DirectoryUser) (admin.UserEntry, error) { return userEntry(r) })
}

func (d directoryDoor) patchUser(c *call) (scimReply, error) {
	body, err := d.body(c)
	if err != nil {
		return scimReply{}, err
	}
	return d.changeUser(c, func(now admin.DirectoryUser) (admin.UserEntry, error) {
		r, err := scim.User.Patch(d.userResource(now), body)
		if err != nil {
			return admin.UserEntry{}, err
		}
		return patchedEntry(r, now)
	})
}

func (d directoryDoor) changeUser(c *call, change func(admin.DirectoryUser) (admin.UserEntry, error)) (scimReply, error) {
	u, err := d.Admin.Directory.ChangeUser(c.r.Context(), c.administrator(), c.r.PathValue("id"), change)
	if err != nil {
		return scimReply{}, err
	}
	return one(c, scim.User, http.StatusOK, d.userResource(u))
}

func (d directoryDoor) deleteUser(c *call) (scimReply, error) {
	return scimReply{status: http.StatusNoContent}, d.Admin.Directory.RemoveUser(c.r.Context(), c.administrator(), c.r.PathValue("id"))
}

func (d directoryDoor) groupResource(g admin.DirectoryGroup) scim.Resource {
	r := scim.Resource{
		"schemas": []any{scim.GroupSchema}, "id": g.ID, "displayName": g.Name,
		"meta": map[string]any{
			"resourceType": "Group", "created": scim.Time(g.CreatedAt), "lastModified": scim.Time(g.ChangedAt), "location": d.base() + "/Groups/" + g.ID,
		},
	}
	if g.ExternalID != "" {
		r["externalId"] = g.ExternalID
	}
	var members []any
	for _, m := range g.Members {
		members = append(members, map[string]any{"value": m.ID, "display": m.Name, "type": "User", "$ref": d.base() + "/Users/" + m.ID})
	}
	if members != nil {
		r["members"] = members
	}
	return r
}

func groupEntry(r scim.Resource) (e admin.GroupEntry, err error) {
	if e.Name, err = r.Text("displayName"); err != nil {
		return e, err
	}
	if e.ExternalID, err = r.Text("externalId"); err != nil {
		return e, err
	}
	members, err := r.Values("members")
	if err != nil {
		return e, err
	}
	for i, m := range members {
		id, err := m.Text("value")
		if err != nil || id == "" {
			return e, scim.InvalidValue("members[%d] has no value.", i)
		}
		e.Members = append(e.Members, id)
	}
	return e, nil
}

func (d directoryDoor) listGroups(c *call) (scimReply, error) {
	q, err := askedFor(c, scim.Group)
	if err != nil {
		return scimReply{}, err
	}
	members := q.selection.Wants("members") || strings.Contains(strings.ToLower(c.r.URL.Query().Get("filter")), "members")
	list, err := d.Admin.Directory.Groups(c.r.Context(), "", members)
	if err != nil {
		return scimReply{}, err
	}
	var all []scim.Resource
	for _, g := range list {
		all = append(all, d.groupResource(g))
	}
	return q.page(all)
}

func (d directoryDoor) getGroup(c *call) (scimReply, error) {
	id := c.r.PathValue("id")
	list, err := d.Admin.Directory.Groups(c.r.Context(), id, true)
	if err == nil && (len(list) != 1 || list[0].ID != id) {
		err = &failure{Status: http.StatusNotFound, Code: "not_found", Detail: "There is no such group."}
	}
	if err != nil {
		return scimReply{}, err
	}
	return one(c, scim.Group, http.StatusOK, d.groupResource(list[0]))
}

func (d directoryDoor) addGroup(c *call) (scimReply, error) {
	r, err := d.resource(c, scim.Group)
	if err != nil {
		return scimReply{}, err
	}
	e, err := groupEntry(r)
	if err != nil {
		return scimReply{}, err
	}
	g, err := d.Admin.Directory.AddGroup(c.r.Context(), c.administrator(), e)
	if err != nil {
		return scimReply{}, err
	}
	return one(c, scim.Group, http.StatusCreated, d.groupResource(g))
}

func (d directoryDoor) putGroup(c *call) (scimReply, error) {
	r, err := d.resource(c, scim.Group)
	if err != nil {
		return scimReply{}, err
	}
	g, err := d.changeGroup(c, func(scim.Resource) (scim.Resource, error) { return r, nil })
	if err != nil {
		return scimReply{}, err
	}
	return one(c, scim.Group, http.StatusOK, d.groupResource(g))
}

// patchGroup answers without the group, which may be long, unless it is asked for.
func (d directoryDoor) patchGroup(c *call) (scimReply, error) {
	body, err := d.body(c)
	if err != nil {
		return scimReply{}, err
	}
	q, err := askedFor(c, scim.Group)
	if err != nil {
		return scimReply{}, err
	}
	g, err := d.changeGroup(c, func(now scim.Resource) (scim.Resource, error) { return scim.Group.Patch(now, body) })
	if err != nil || !q.selection.Named() {
		return scimReply{status: http.StatusNoContent}, err
	}
	return scimOK(q.selection.Of(d.groupResource(g)))
}

func (d directoryDoor) changeGroup(c *call, change func(scim.Resource) (scim.Resource, error)) (admin.DirectoryGroup, error) {
	return d.Admin.Directory.ChangeGroup(c.r.Context(), c.administrator(), c.r.PathValue("id"), func(now admin.DirectoryGroup) (admin.GroupEntry, error) {
		r, err := change(d.groupResource(now))
		if err != nil {
			return admin.GroupEntry{}, err
		}
		return groupEntry(r)
	})
}

func (d directoryDoor) deleteGroup(c *call) (scimReply, error) {
	return scimReply{status: http.StatusNoContent}, d.Admin.Directory.RemoveGroup(c.r.Context(), c.administrator(), c.r.PathValue("id"))
}
