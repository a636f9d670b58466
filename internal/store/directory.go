package store

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// Directory keeps what a provider's directory has told of people and groups (SCIM).
type Directory struct{ *db }

// DirectoryUser is an account that a directory tells of. Its name, address and whether
// it is disabled are the account's.
type DirectoryUser struct {
	ID, UserName, ExternalID string // ExternalID is "" for none
	Name, Email              string
	Parts                    NameParts
	Disabled                 bool
	Groups                   []DirectoryMember
	CreatedAt, ChangedAt     time.Time
	// ByDirectory says that the account is disabled because the directory said so.
	// Removed says that the directory has removed the person.
	ByDirectory, Removed bool
}

// NameParts are what a directory calls somebody beside the name of the account, each "" for
// none.
type NameParts struct{ Given, Family, Formatted string }

// DirectoryMember is one end of a membership: a group, or a person in it.
type DirectoryMember struct{ ID, Name string }

// DirectoryGroup is a group that a directory tells of.
type DirectoryGroup struct {
	ID, Name, ExternalID string
	Members              []DirectoryMember
	CreatedAt, ChangedAt time.Time
}

// DirectoryUserQuery narrows a search by what has to be equal; "" is anything.
type DirectoryUserQuery struct{ ID, UserName, ExternalID string }

var directoryUserRows = newRows(func(u *DirectoryUser) columns {
	return columns{
		{"u.person_id", &u.ID},
		{"u.user_name", &u.UserName},
		{"coalesce(u.external_id, '')", &u.ExternalID},
		{"p.name", &u.Name},
		{"p.email", &u.Email},
		{"coalesce(u.given_name, '')", &u.Parts.Given},
		{"coalesce(u.family_name, '')", &u.Parts.Family},
		{"coalesce(u.formatted_name, '')", &u.Parts.Formatted},
		{"p.disabled_at IS NOT NULL", &u.Disabled},
		{"(SELECT jsonb_agg(jsonb_build_object('ID', g.id, 'Name', g.name) ORDER BY g.name) FROM directory_members m JOIN directory_groups g ON g.id = m.group_id WHERE m.person_id = p.id)", &u.Groups},
		{"u.created_at", &u.CreatedAt},
		{"u.changed_at", &u.ChangedAt},
		{"p.disabled_at IS NOT NULL AND p.disabled_at IS NOT DISTINCT FROM u.disabled_at", &u.ByDirectory},
		{"u.removed_at IS NOT NULL", &u.Removed},
	}
})

const directoryUsers = ` FROM directory_users u JOIN people p ON p.id = u.person_id `

// Users lists the people whom the directory has told of and not removed, those who came
// first first.
func (s Directory) Users(ctx context.Context, q DirectoryUserQuery) ([]DirectoryUser, error) {
	return directoryUserRows.query(ctx, s.db, `SELECT `+directoryUserRows.names+directoryUsers+`
		WHERE u.removed_at IS NULL AND ($1 = '' OR u.person_id = $1) AND ($2 = '' OR lower(u.user_name) = lower($2)) AND ($3 = '' OR u.external_id = $3)
		ORDER BY u.created_at, u.person_id`, q.ID, q.UserName, q.ExternalID)
}

// directoryGroupRows has members where $1 is true.
var directoryGroupRows = newRows(func(g *DirectoryGroup) columns {
	return columns{
		{"g.id", &g.ID},
		{"g.name", &g.Name},
		{"coalesce(g.external_id, '')", &g.ExternalID},
		{"(SELECT jsonb_agg(jsonb_build_object('ID', p.id, 'Name', p.name) ORDER BY p.email) FROM directory_members m JOIN people p ON p.id = m.person_id WHERE $1 AND m.group_id = g.id)", &g.Members},
		{"g.created_at", &g.CreatedAt},
		{"g.changed_at", &g.ChangedAt},
	}
})

// Groups lists the groups, those that came first first. Members are read on demand. With
// an id it is that group alone.
func (s Directory) Groups(ctx context.Context, id string, withMembers bool) ([]DirectoryGroup, error) {
	return directoryGroupRows.query(ctx, s.db, `SELECT `+directoryGroupRows.names+` FROM directory_groups g WHERE $2 = '' OR g.id = $2 ORDER BY g.created_at, g.id`, withMembers, id)
}

// DirectoryChange is one change that a directory makes, under the lock of every change
// of an account.
type DirectoryChange struct {
	ctx       context.Context //nolint:containedctx // it lives as long as the transaction
	tx        pgx.Tx
	adminRole string
	events    []engine.Event
}

// Change makes a change, and appends its events. ErrConflict: a name, an address or an
// external id is taken. Errors of do come back as they are.
func (s Directory) Change(ctx context.Context, adminRole string, do func(*DirectoryChange) error) error {
	return s.inTxOn(ctx, s.writesPeople(), func(ctx context.Context, tx pgx.Tx) error {
		if err := lockPeople(ctx, tx); err != nil {
			return err
		}
		c := &DirectoryChange{ctx: ctx, tx: tx, adminRole: adminRole}
		if err := do(c); err != nil || len(c.events) == 0 {
			return err
		}
		rows := &pgx.Batch{}
		queueEvents(rows, c.events, nil)
		return translate(tx.SendBatch(ctx, rows).Close())
	})
}

// Record appends an event at the end of the change.
func (c *DirectoryChange) Record(e engine.Event) { c.events = append(c.events, e) }

func (c *DirectoryChange) exec(sql string, args ...any) error {
	_, err := c.tx.Exec(c.ctx, sql, args...)
	return translate(err)
}

// User reads somebody, removed or not, with how the account is. ErrNotFound: the
// directory has not told of them.
func (c *DirectoryChange) User(id string) (DirectoryUser, LockedAccount, error) {
	u, err := directoryUserRows.one(c.tx.QueryRow(c.ctx, `SELECT `+directoryUserRows.names+directoryUsers+`WHERE u.person_id = $1`, id))
	if err != nil {
		return u, LockedAccount{}, err
	}
	now, err := c.Standing(id)
	return u, now, err
}

// Standing is how an account is. ErrNotFound: there is none.
func (c *DirectoryChange) Standing(id string) (LockedAccount, error) {
	return standing(c.ctx, c.tx, id, "", c.adminRole)
}

// Holder is whose account an arrival of the directory may be.
type Holder struct {
	ID string
	// ByExternalID says that the directory has told of them by the external id, and
	// Known that it has told of them at all. Removed says that it has removed them.
	ByExternalID, Known, Removed bool
	// Subject is what the provider calls them, "" where they have not come in by it, and
	// Elsewhere says that they have come in by another one.
	Subject   string
	Elsewhere bool
	// Administers says that the account has the role that administers.
	Administers bool
}

// Holder finds the account that an external id ("" for none) names, or else the one that
// has an address. ErrNotFound: there is neither.
func (c *DirectoryChange) Holder(externalID, email, issuer string) (h Holder, err error) {
	err = c.tx.QueryRow(c.ctx, `SELECT p.id, u.external_id IS NOT NULL AND u.external_id = $1, u.person_id IS NOT NULL, u.removed_at IS NOT NULL, coalesce(i.subject, ''),
			EXISTS (SELECT FROM sso_identities o WHERE o.person_id = p.id AND o.issuer <> $3), $4 = ANY (p.roles)
		FROM people p LEFT JOIN directory_users u ON u.person_id = p.id LEFT JOIN sso_identities i ON i.person_id = p.id AND i.issuer = $3
		WHERE u.external_id = $1 OR p.email = $2 ORDER BY 2 DESC LIMIT 1`, externalID, email, issuer, c.adminRole).
		Scan(&h.ID, &h.ByExternalID, &h.Known, &h.Removed, &h.Subject, &h.Elsewhere, &h.Administers)
	return h, translate(err)
}

// Add stores an account that no password signs in.
func (c *DirectoryChange) Add(p engine.Person) error {
	return c.exec(`INSERT INTO people (id, email, name, identity, password_hash, roles) VALUES ($1, $2, $3, $4, $5, $6)`, p.ID, p.Email, p.Name, p.Identity, NoPassword, append([]string{}, p.Roles...))
}

// Put stores what the directory calls somebody, who is not removed any more.
func (c *DirectoryChange) Put(u DirectoryUser) error {
	return c.exec(`INSERT INTO directory_users (person_id, user_name, external_id, given_name, family_name, formatted_name) VALUES ($1, $2, nullif($3, ''), nullif($4, ''), nullif($5, ''), nullif($6, ''))
		ON CONFLICT (person_id) DO UPDATE SET user_name = excluded.user_name, external_id = excluded.external_id, given_name = excluded.given_name, family_name = excluded.family_name,
			formatted_name = excluded.formatted_name, changed_at = clock_timestamp(), removed_at = NULL`, u.ID, u.UserName, u.ExternalID, u.Parts.Given, u.Parts.Family, u.Parts.Formatted)
}

// Edit changes an account.
func (c *DirectoryChange) Edit(id string, e AccountEdit) error { return e.run(c.ctx, c.tx, id) }

// Disable disables an account, of which the directory can enable it again.
func (c *DirectoryChange) Disable(id string) error {
	if err := c.Edit(id, AccountEdit{Disable: true, SignOut: true}); err != nil {
		return err
	}
	return c.exec(`UPDATE directory_users u SET disabled_at = p.disabled_at FROM people p WHERE p.id = u.person_id AND u.person_id = $1`, id)
}

// Remove forgets which groups somebody is in, and that the directory has them.
func (c *DirectoryChange) Remove(id string) error {
	if err := c.exec(`DELETE FROM directory_members WHERE person_id = $1`, id); err != nil {
		return err
	}
	return c.exec(`UPDATE directory_users SET removed_at = clock_timestamp(), changed_at = clock_timestamp() WHERE person_id = $1`, id)
}

// Group reads a group with its members. ErrNotFound: there is none.
func (c *DirectoryChange) Group(id string) (DirectoryGroup, error) {
	return directoryGroupRows.one(c.tx.QueryRow(c.ctx, `SELECT `+directoryGroupRows.names+` FROM directory_groups g WHERE g.id = $2`, true, id))
}

// PutGroup stores a group's names.
func (c *DirectoryChange) PutGroup(g DirectoryGroup) error {
	return c.exec(`INSERT INTO directory_groups (id, name, external_id) VALUES ($1, $2, nullif($3, ''))
		ON CONFLICT (id) DO UPDATE SET name = $2, external_id = nullif($3, ''), changed_at = clock_timestamp()`, g.ID, g.Name, g.ExternalID)
}

// DeleteGroup deletes a group.
func (c *DirectoryChange) DeleteGroup(id string) error {
	return c.exec(`DELETE FROM directory_groups WHERE id = $1`, id)
}

// SetMembers puts people into a group and takes others out of it, and reports whether all
// of the former are people whom the directory has.
func (c *DirectoryChange) SetMembers(id string, in, out []string) (all bool, err error) {
	tag, err := c.tx.Exec(c.ctx, `INSERT INTO directory_members (group_id, person_id) SELECT $1, person_id FROM directory_users WHERE person_id = ANY ($2) AND removed_at IS NULL`, id, in)
	if err != nil {
		return false, translate(err)
	}
	return tag.RowsAffected() == int64(len(in)), c.exec(`DELETE FROM directory_members WHERE group_id = $1 AND person_id = ANY ($2)`, id, out)
}

// GroupsOf are the names of the groups that people are in, by their ids. Those who are in
// none have an entry, those whom the directory does not have have none.
func (c *DirectoryChange) GroupsOf(ids []string) (map[string][]string, error) {
	return groupsOf(c.ctx, c.tx, ids)
}

func groupsOf(ctx context.Context, tx pgx.Tx, ids []string) (map[string][]string, error) {
	rows, err := tx.Query(ctx, `SELECT u.person_id, coalesce(array_agg(g.name) FILTER (WHERE g.id IS NOT NULL), '{}')
		FROM directory_users u LEFT JOIN directory_members m ON m.person_id = u.person_id LEFT JOIN directory_groups g ON g.id = m.group_id
		WHERE u.person_id = ANY ($1) AND u.removed_at IS NULL GROUP BY u.person_id`, ids)
	if err != nil {
		return nil, translate(err)
	}
	groups := map[string][]string{}
	var id string
	var names []string
	_, err = pgx.ForEachRow(rows, []any{&id, &names}, func() error {
		groups[id] = slices.Clone(names)
		return nil
	})
	return groups, translate(err)
}

// Roles are people with their own roles, by their ids, and all those who have the role
// that administers and can sign in.
func (c *DirectoryChange) Roles(ids []string) (roles map[string]LockedAccount, administrators map[string]bool, err error) {
	rows, err := c.tx.Query(c.ctx, `SELECT id, roles, disabled_at IS NOT NULL FROM people WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE`, ids)
	if err != nil {
		return nil, nil, translate(err)
	}
	roles = map[string]LockedAccount{}
	var now LockedAccount
	if _, err = pgx.ForEachRow(rows, []any{&now.ID, &now.Roles, &now.Disabled}, func() error {
		now.Roles = slices.Clone(now.Roles)
		roles[now.ID] = now
		return nil
	}); err != nil {
		return nil, nil, translate(err)
	}
	rows, err = c.tx.Query(c.ctx, `SELECT o.id FROM people o WHERE $1::text = '' AND `+administers, "", c.adminRole, NoPassword)
	if err != nil {
		return nil, nil, translate(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	administrators = map[string]bool{}
	for _, id := range list {
		administrators[id] = true
	}
	return roles, administrators, translate(err)
}

// SetRoles changes the roles of people.
func (c *DirectoryChange) SetRoles(roles map[string][]string) error {
	rows := &pgx.Batch{}
	for id, list := range roles {
		rows.Queue(`UPDATE people SET roles = $2 WHERE id = $1`, id, append([]string{}, list...))
	}
	return translate(c.tx.SendBatch(c.ctx, rows).Close())
}
