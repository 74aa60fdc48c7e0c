package people

import (
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

func userRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /users", Handle: usersByID},
		{Pattern: "GET /users/search", Handle: searchUsers},
		{Pattern: "GET /users/blocked", Handle: usersWhere(func(p *row.Person) bool { return p.Blocked })},
		{Pattern: "GET /users/restricted", Handle: usersWhere(func(p *row.Person) bool { return p.Restricted })},
		{Pattern: "GET /users/{user_id}", Handle: getUser},
		{Pattern: "GET /handles/{handle}", Handle: userByHandle},
		{Pattern: "PUT /users/{user_id}/block", Handle: changePerson(block)},
		{Pattern: "DELETE /users/{user_id}/block", Handle: changePerson(unblock)},
		{Pattern: "PUT /users/{user_id}/restriction", Handle: changePerson(restrict)},
		{Pattern: "DELETE /users/{user_id}/restriction", Handle: changePerson(unrestrict)},
		{Pattern: "PUT /users/{user_id}/follow", Handle: follow},
		{Pattern: "DELETE /users/{user_id}/follow", Handle: changePerson(unfollow)},
		{Pattern: "POST /users/{user_id}/reports", Handle: wire.ReadOn(wire.User, report)},
	}
}

// pageOfUsers lists people by id.
func pageOfUsers(c *wire.Call, rows []*row.Person) (any, error) {
	return wire.Page(c, rows, wire.Order[*row.Person]{Up: true}, func(p *row.Person) any { return view.Person(c.Creator, p) })
}

// usersByID returns up to a hundred users in the requested order and skips unknown ids.
func usersByID(c *wire.Call) (any, error) {
	ids := c.QueryIDs("ids")
	if len(ids) > 100 {
		return nil, wire.Invalid("ids", "You can request at most 100 users.")
	}
	var rows []*row.Person
	for n, id := range ids {
		if p := c.People().Get(id); p != nil && !slices.Contains(ids[:n], id) {
			rows = append(rows, p)
		}
	}
	return wire.Whole(rows, func(p *row.Person) any { return view.Person(c.Creator, p) }), nil
}

func searchUsers(c *wire.Call) (any, error) { return pageOfUsers(c, matching(c, c.Query("q"))) }

// matching returns the people whose names contain the query.
func matching(c *wire.Call, query string) []*row.Person {
	query = strings.ToLower(strings.TrimPrefix(strings.TrimSpace(query), "@"))
	return wire.Filter(c.People().All(), func(p *row.Person) bool { return named(p, query) })
}

// named reports whether one of a person's names contains the query, which must be lower case.
func named(p *row.Person, query string) bool {
	return query == "" || strings.Contains(strings.ToLower(p.Name), query) || strings.Contains(p.Username, query) ||
		strings.Contains(strings.ToLower(p.CustomName), query)
}

func usersWhere(fits func(*row.Person) bool) func(*wire.Call) (any, error) {
	return func(c *wire.Call) (any, error) { return pageOfUsers(c, wire.Filter(c.People().All(), fits)) }
}

func getUser(c *wire.Call) (any, error) {
	if c.ID("user_id") == c.Profile.ID {
		return view.Self(c.Creator), nil
	}
	p, err := c.Person("user_id")
	if err != nil {
		return nil, err
	}
	return view.Person(c.Creator, p), nil
}

func userByHandle(c *wire.Call) (any, error) {
	handle := strings.ToLower(strings.TrimPrefix(c.Request.PathValue("handle"), "@"))
	if handle == c.Profile.Username {
		return view.Self(c.Creator), nil
	}
	for _, p := range c.People().All() {
		if p.Username == handle {
			return view.Person(c.Creator, p), nil
		}
	}
	return nil, wire.NotFound("user")
}

// changePerson returns a handler that changes the person named in the path and answers OK.
func changePerson(do func(*wire.Call, *row.Person)) wire.Handler {
	return wire.Change(wire.User, (*world.Creator).People, do)
}

// block blocks a person, who can no longer write, tip or subscribe, receives no mass messages, and whose subscription
// is not renewed.
func block(c *wire.Call, p *row.Person) {
	p.Blocked = true
	if p.Sub.Active(c.Now()) && p.Sub.AutoRenew {
		setRenewal(c.Creator, p, false)
	}
}

func unblock(_ *wire.Call, p *row.Person) { p.Blocked = false }

// restrict restricts a person, who can still read but no longer write or tip.
func restrict(_ *wire.Call, p *row.Person) { p.Restricted = true }

func unrestrict(_ *wire.Call, p *row.Person) { p.Restricted = false }

// keptReports limits how many reports about a person are stored.
const keptReports = 20

type reportInput struct {
	Reason string `json:"reason"`
	Note   string `json:"comment"`
}

func report(c *wire.Call, p *row.Person, in *reportInput) (any, error) {
	p.Reported = append(p.Reported, strings.TrimSpace(in.Reason+": "+in.Note))
	p.Reported = p.Reported[max(len(p.Reported)-keptReports, 0):]
	c.People().Put(p)
	return wire.OK, nil
}
