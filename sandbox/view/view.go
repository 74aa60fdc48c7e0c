// Package view converts the platform's records to the JSON of responses and frames: snake_case names, numeric ids,
// decimal dollars.
package view

import (
	"slices"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Dollars is an amount in cents. Its JSON is a decimal number of dollars: 1250 is 12.5.
type Dollars int64

// MarshalJSON writes the shortest decimal.
func (d Dollars) MarshalJSON() ([]byte, error) {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	text := sign + strconv.FormatInt(int64(d/100), 10)
	switch cents := int64(d % 100); {
	case cents == 0:
	case cents%10 == 0:
		text += "." + strconv.FormatInt(cents/10, 10)
	case cents < 10:
		text += ".0" + strconv.FormatInt(cents, 10)
	default:
		text += "." + strconv.FormatInt(cents, 10)
	}
	return []byte(text), nil
}

// UnmarshalJSON reads a decimal number of dollars and rounds it to cents.
func (d *Dollars) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return err
	}
	if f < 0 {
		*d = Dollars(f*100 - 0.5)
		return nil
	}
	*d = Dollars(f*100 + 0.5)
	return nil
}

// Stamp is a time whose JSON has seconds and an offset. The zero time is null.
type Stamp time.Time

// MarshalJSON writes the time in the platform's format.
func (s Stamp) MarshalJSON() ([]byte, error) {
	if time.Time(s).IsZero() {
		return []byte("null"), nil
	}
	return []byte(time.Time(s).UTC().Format(`"2006-01-02T15:04:05+00:00"`)), nil
}

// UnmarshalJSON reads an RFC 3339 time with any offset, or null.
func (s *Stamp) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*s = Stamp{}
		return nil
	}
	t, err := time.Parse(`"`+time.RFC3339+`"`, string(text))
	*s = Stamp(t.UTC())
	return err
}

// Optional returns a pointer to a value, or nil for the zero value, which is null in JSON.
func Optional[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// NotNull returns list, or an empty list instead of nil, so that it is never null in JSON.
func NotNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// User is the creator's view of a user.
type User struct {
	ID         int64   `json:"id"`
	Handle     string  `json:"handle"`
	Name       string  `json:"display_name"`
	Avatar     *string `json:"avatar"`
	IsCreator  bool    `json:"is_creator"`
	Verified   bool    `json:"is_verified"`
	LastSeen   Stamp   `json:"last_seen"`
	Blocked    bool    `json:"is_blocked"`
	Restricted bool    `json:"is_restricted"`
	Lists      []int64 `json:"list_ids"`
}

// Person returns the view of a person.
func Person(c *world.Creator, p *row.Person) User {
	u := User{
		ID: p.ID, Handle: p.Username, Name: p.Name, IsCreator: p.IsCreator, Verified: p.Verified, LastSeen: Stamp(p.LastSeen),
		Blocked: p.Blocked, Restricted: p.Restricted, Lists: []int64{},
	}
	if p.ID%4 != 0 {
		avatar := c.Origin() + "/media/avatar/" + strconv.FormatInt(p.ID, 10) + ".png"
		u.Avatar = &avatar
	}
	for _, l := range c.Lists().All() {
		if l.System == "" && slices.Contains(l.Members, p.ID) {
			u.Lists = append(u.Lists, l.ID)
		}
	}
	return u
}

// Self returns the view of the creator as a user.
func Self(c *world.Creator) User {
	avatar := MediaURL(c, c.Profile.AvatarID, "thumb")
	return User{
		ID: c.Profile.ID, Handle: c.Profile.Username, Name: c.Profile.Name, Avatar: &avatar, IsCreator: !c.Profile.IsFan, Verified: true,
		LastSeen: Stamp(c.Now()), Lists: []int64{},
	}
}

// PersonByID returns the view of the person or creator with an id. An unknown id gives a deleted user.
func PersonByID(c *world.Creator, id int64) User {
	if id == c.Profile.ID {
		return Self(c)
	}
	if p := c.People().Get(id); p != nil {
		return Person(c, p)
	}
	return User{ID: id, Handle: "deleted_" + strconv.FormatInt(id, 10), Name: "Deleted user", Lists: []int64{}}
}

// optionalUser returns the view of the user with an id, or nil for 0.
func optionalUser(c *world.Creator, id int64) *User {
	if id == 0 {
		return nil
	}
	u := PersonByID(c, id)
	return &u
}

// MediaURL returns the URL of a medium. The quality is thumb, preview, full or source.
func MediaURL(c *world.Creator, media int64, quality string) string {
	return c.Origin() + "/media/" + strconv.FormatInt(media, 10) + "/" + quality
}

// Transaction is the view of an incoming payment.
type Transaction struct {
	ID     int64   `json:"id"`
	Type   string  `json:"kind"`
	Status string  `json:"state"`
	Gross  Dollars `json:"amount"`
	Fee    Dollars `json:"fee"`
	Net    Dollars `json:"net"`
	Curr   string  `json:"currency"`
	User   *User   `json:"user"`
	Ref    *int64  `json:"ref_id"`
	At     Stamp   `json:"created_at"`
}

// Tx returns the view of a transaction with its stored state.
func Tx(c *world.Creator, t *row.Tx) Transaction {
	return Transaction{
		ID: t.ID, Type: t.Type, Status: t.Status, Gross: Dollars(t.Gross), Fee: Dollars(t.Fee()), Net: Dollars(t.Net()),
		Curr: "USD", User: optionalUser(c, t.Person), Ref: Optional(t.Ref), At: Stamp(t.At),
	}
}

// ListView is the view of a list of people.
type ListView struct {
	ID     int64  `json:"id"`
	Name   string `json:"name"`
	Type   string `json:"type"` // builtin, own
	Users  int    `json:"users_count"`
	Pinned bool   `json:"is_pinned"`
	Edit   bool   `json:"can_edit"`
}

// List returns the view of a list.
func List(c *world.Creator, l *row.List) ListView {
	v := ListView{ID: l.ID, Name: l.Name, Type: "own", Pinned: l.Pinned, Edit: true, Users: len(l.Members)}
	if l.System != "" {
		v.Type, v.Edit, v.Users = "builtin", false, 0
		for _, p := range c.People().All() {
			if c.Member(l, p) {
				v.Users++
			}
		}
	}
	return v
}
