package publish

import (
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
)

func labelRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /labels", Handle: listLabels},
		{Pattern: "POST /labels", Handle: wire.Read(createLabel)},
		{Pattern: "PATCH /labels/{label_id}", Handle: wire.ReadOn(findLabel, updateLabel)},
		{Pattern: "DELETE /labels/{label_id}", Handle: wire.On(findLabel, deleteLabel)},
	}
}

func listLabels(c *wire.Call) (any, error) {
	return wire.Page(c, c.Labels().All(), wire.Order[*row.Label]{Up: true}, func(l *row.Label) any { return view.Label(c.Creator, l) })
}

func findLabel(c *wire.Call) (*row.Label, error) {
	return wire.Found("label", c.Labels().Get(c.ID("label_id")))
}

type labelName struct {
	Name string `json:"name"`
}

func (in *labelName) Check(*wire.Call) error {
	if in.Name == "" {
		return wire.Invalid("name", "A label needs a name.")
	}
	return nil
}

func createLabel(c *wire.Call, in *labelName) (any, error) {
	l := &row.Label{Rec: row.Rec{ID: c.Labels().NextID()}, Name: in.Name, At: c.Now()}
	c.Labels().Put(l)
	return view.Label(c.Creator, l), nil
}

func updateLabel(c *wire.Call, l *row.Label, in *labelName) (any, error) {
	l.Name = in.Name
	c.Labels().Put(l)
	return view.Label(c.Creator, l), nil
}

func deleteLabel(c *wire.Call, l *row.Label) (any, error) {
	for _, p := range c.Posts().All() {
		if slices.Contains(p.Labels, l.ID) {
			p.Labels = slices.DeleteFunc(slices.Clone(p.Labels), func(id int64) bool { return id == l.ID })
			c.Posts().Put(p)
		}
	}
	c.Labels().Delete(l.ID)
	return wire.OK, nil
}
