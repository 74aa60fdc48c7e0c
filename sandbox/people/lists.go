package people

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

func listRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /lists", Handle: lists},
		{Pattern: "POST /lists", Handle: wire.Read(createList)},
		{Pattern: "GET /lists/{list_id}", Handle: wire.Show(findList, view.List)},
		{Pattern: "PATCH /lists/{list_id}", Handle: wire.ReadOn(ownList, renameList)},
		{Pattern: "DELETE /lists/{list_id}", Handle: wire.On(ownList, deleteList)},
		{Pattern: "GET /lists/{list_id}/users", Handle: wire.On(findList, listUsers)},
		{Pattern: "POST /lists/{list_id}/users", Handle: wire.ReadOn(ownList, addUsers)},
		{Pattern: "DELETE /lists/{list_id}/users", Handle: wire.On(ownList, clearList)},
		{Pattern: "POST /lists/{list_id}/users/remove", Handle: wire.ReadOn(ownList, removeUsers)},
		{Pattern: "PUT /lists/{list_id}/pins/{user_id}", Handle: wire.Set(findList, setPin, true)},
		{Pattern: "DELETE /lists/{list_id}/pins/{user_id}", Handle: wire.Set(findList, setPin, false)},
		{Pattern: "PUT /users/{user_id}/lists", Handle: wire.ReadOn(wire.User, setForUser)},
	}
}

func lists(c *wire.Call) (any, error) {
	kind, query := c.Query("type"), strings.ToLower(c.Query("q"))
	rows := wire.Filter(c.Lists().All(), func(l *row.List) bool {
		return (kind == "" || kind == "all" || (kind == "builtin") == (l.System != "")) && strings.Contains(strings.ToLower(l.Name), query)
	})
	return wire.Page(c, rows, wire.Order[*row.List]{Up: true}, func(l *row.List) any { return view.List(c.Creator, l) })
}

func findList(c *wire.Call) (*row.List, error) {
	return wire.Found("list", c.Lists().Get(c.ID("list_id")))
}

// ownList is like findList, but refuses lists that the creator may not change.
func ownList(c *wire.Call) (*row.List, error) { return ownListByID(c, c.ID("list_id")) }

func ownListByID(c *wire.Call, id int64) (*row.List, error) {
	l, err := wire.Found("list", c.Lists().Get(id))
	if err == nil && l.System != "" {
		return nil, wire.Forbidden("This is a system list. It cannot be changed.")
	}
	return l, err
}

type listName struct {
	Name string `json:"name"`
}

func (in *listName) Check(*wire.Call) error {
	if n := utf8.RuneCountInString(in.Name); n < 1 || n > 64 {
		return wire.Invalid("name", "A list's name must have 1 to 64 characters.")
	}
	return nil
}

func createList(c *wire.Call, in *listName) (any, error) {
	l := &row.List{Rec: row.Rec{ID: c.Lists().NextID()}, Name: in.Name, At: c.Now()}
	return saveList(c.Creator, l, 0, 0), nil
}

func renameList(c *wire.Call, l *row.List, in *listName) (any, error) {
	l.Name = in.Name
	return saveList(c.Creator, l, 0, 0), nil
}

// saveList stores a list and sends its frame.
func saveList(c *world.Creator, l *row.List, added, removed int) view.ListView {
	c.Lists().Put(l)
	v := view.List(c, l)
	c.Emit(frameList, listChanged{List: v, Added: added, Removed: removed})
	return v
}

type listChanged struct {
	List    view.ListView `json:"list"`
	Added   int           `json:"added"`
	Removed int           `json:"removed"`
}

func deleteList(c *wire.Call, l *row.List) (any, error) {
	c.Lists().Delete(l.ID)
	c.Emit(frameList, listChanged{List: view.List(c.Creator, l), Removed: len(l.Members)})
	return wire.OK, nil
}

func clearList(c *wire.Call, l *row.List) (any, error) {
	removed := l.Remove(func(int64) bool { return true })
	saveList(c.Creator, l, 0, removed)
	return map[string]int{"removed": removed}, nil
}

func listUsers(c *wire.Call, l *row.List) (any, error) {
	members := wire.Filter(c.People().All(), func(p *row.Person) bool { return c.Member(l, p) })
	order := wire.Order[*row.Person]{}
	switch c.Query("sort") {
	case "name":
		order.Up, order.Rank = true, nameRank
	case "spend":
		order.Rank = func(p *row.Person) int64 { return c.Spent(p.ID).Total }
	default:
		places := map[int64]int64{}
		for n, id := range l.Members {
			places[id] = l.Place(n)
		}
		order.Rank = func(p *row.Person) int64 { return places[p.ID] }
	}
	return wire.Page(c, members, pinsFirst(l, order), func(p *row.Person) any { return view.Person(c.Creator, p) })
}

// nameRank ranks people by the first seven bytes of their names, which is close enough to sorting by name.
func nameRank(p *row.Person) int64 {
	var rank int64
	name := strings.ToLower(p.Name)
	for i := range 7 {
		rank <<= 8
		if i < len(name) {
			rank |= int64(name[i])
		}
	}
	return rank
}

// pinsFirst changes an order so that pinned people come first.
func pinsFirst(l *row.List, order wire.Order[*row.Person]) wire.Order[*row.Person] {
	if len(l.Pins) == 0 {
		return order
	}
	const top = 1 << 60 // larger than every rank
	rank := order.Rank
	order.Rank = func(p *row.Person) int64 {
		switch {
		case !slices.Contains(l.Pins, p.ID):
			return rank(p)
		case order.Up:
			return rank(p) - top
		}
		return rank(p) + top
	}
	return order
}

type userIDs struct {
	Users []int64 `json:"user_ids"`
}

func addUsers(c *wire.Call, l *row.List, in *userIDs) (any, error) {
	added, skipped := 0, []int64{}
	for _, id := range in.Users {
		if c.People().Get(id) == nil || slices.Contains(l.Members, id) {
			skipped = append(skipped, id)
			continue
		}
		l.Add(id)
		added++
	}
	saveList(c.Creator, l, added, 0)
	return map[string]any{"added": added, "skipped": skipped}, nil
}

func removeUsers(c *wire.Call, l *row.List, in *userIDs) (any, error) {
	removed := l.Remove(func(id int64) bool { return slices.Contains(in.Users, id) })
	saveList(c.Creator, l, 0, removed)
	return map[string]int{"removed": removed}, nil
}

type setForUserInput struct {
	Add    []int64 `json:"add"`
	Remove []int64 `json:"remove"`
}

func setForUser(c *wire.Call, p *row.Person, in *setForUserInput) (any, error) {
	for _, id := range slices.Concat(in.Add, in.Remove) {
		if _, err := ownListByID(c, id); err != nil {
			return nil, err
		}
	}
	for _, id := range in.Add {
		if l := c.Lists().Get(id); !slices.Contains(l.Members, p.ID) {
			l.Add(p.ID)
			saveList(c.Creator, l, 1, 0)
		}
	}
	for _, id := range in.Remove {
		l := c.Lists().Get(id)
		if removed := l.Remove(func(member int64) bool { return member == p.ID }); removed > 0 {
			saveList(c.Creator, l, 0, removed)
		}
	}
	return map[string]any{"list_ids": view.Person(c.Creator, p).Lists}, nil
}

func setPin(c *wire.Call, l *row.List, pinned bool) (any, error) {
	p, err := c.Person("user_id")
	if err != nil {
		return nil, err
	}
	if !c.Member(l, p) {
		return nil, wire.Conflict("This user is not on the list.")
	}
	l.Pins = slices.DeleteFunc(l.Pins, func(id int64) bool { return id == p.ID })
	if pinned {
		l.Pins = append(l.Pins, p.ID)
	}
	c.Lists().Put(l)
	return map[string]bool{"is_pinned": pinned}, nil
}
