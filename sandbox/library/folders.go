package library

import (
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
)

func folderRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /vault/folders", Handle: listFolders},
		{Pattern: "POST /vault/folders", Handle: wire.Read(createFolder)},
		{Pattern: "GET /vault/folders/{folder_id}", Handle: wire.Show(folder, view.Folder)},
		{Pattern: "PATCH /vault/folders/{folder_id}", Handle: wire.ReadOn(ownFolder, renameFolder)},
		{Pattern: "DELETE /vault/folders/{folder_id}", Handle: wire.On(ownFolder, deleteFolder)},
		{Pattern: "GET /vault/folders/{folder_id}/media", Handle: wire.On(folder, folderMedia)},
		{Pattern: "POST /vault/folders/{folder_id}/media", Handle: wire.ReadOn(ownFolder, addMedia)},
		{Pattern: "POST /vault/folders/{folder_id}/media/remove", Handle: wire.ReadOn(ownFolder, removeMedia)},
	}
}

func listFolders(c *wire.Call) (any, error) {
	query := strings.ToLower(c.Query("q"))
	rows := wire.Filter(c.Folders().All(), func(f *row.Folder) bool { return strings.Contains(strings.ToLower(f.Name), query) })
	return wire.Page(c, rows, wire.Order[*row.Folder]{Up: true}, func(f *row.Folder) any { return view.Folder(c.Creator, f) })
}

func folder(c *wire.Call) (*row.Folder, error) {
	return wire.Found("folder", c.Folders().Get(c.ID("folder_id")))
}

// ownFolder is like folder, but refuses folders that the creator may not change.
func ownFolder(c *wire.Call) (*row.Folder, error) {
	f, err := folder(c)
	if err == nil && f.System != "" {
		return nil, wire.Forbidden("This is a system folder. It cannot be changed.")
	}
	return f, err
}

type folderName struct {
	Name string `json:"name"`
}

func (in *folderName) Check(*wire.Call) error {
	if in.Name == "" {
		return wire.Invalid("name", "A folder needs a name.")
	}
	return nil
}

func createFolder(c *wire.Call, in *folderName) (any, error) {
	f := &row.Folder{Rec: row.Rec{ID: c.Folders().NextID()}, Name: in.Name, At: c.Now()}
	c.Folders().Put(f)
	return view.Folder(c.Creator, f), nil
}

func renameFolder(c *wire.Call, f *row.Folder, in *folderName) (any, error) {
	f.Name = in.Name
	c.Folders().Put(f)
	return view.Folder(c.Creator, f), nil
}

func deleteFolder(c *wire.Call, f *row.Folder) (any, error) {
	for _, m := range c.Media().All() {
		takeOut(c, m, f.ID)
	}
	c.Folders().Delete(f.ID)
	return wire.OK, nil
}

// takeOut removes a medium from a folder and reports whether it was in it.
func takeOut(c *wire.Call, m *row.Media, folder int64) bool {
	if !slices.Contains(m.Folders, folder) {
		return false
	}
	m.Folders = slices.DeleteFunc(slices.Clone(m.Folders), func(id int64) bool { return id == folder })
	c.Media().Put(m)
	return true
}

func folderMedia(c *wire.Call, f *row.Folder) (any, error) {
	return pageMedia(c, func(m *row.Media) bool { return slices.Contains(m.Folders, f.ID) })
}

func addMedia(c *wire.Call, f *row.Folder, in *mediaIDs) (any, error) {
	added := 0
	for _, id := range in.Media {
		m, err := wire.Found("media", c.Media().Get(id))
		if err != nil {
			return nil, err
		}
		if !slices.Contains(m.Folders, f.ID) {
			m.Folders = append(slices.Clone(m.Folders), f.ID)
			c.Media().Put(m)
			added++
		}
	}
	return map[string]int{"added": added}, nil
}

func removeMedia(c *wire.Call, f *row.Folder, in *mediaIDs) (any, error) {
	removed := 0
	for _, id := range in.Media {
		if m := c.Media().Get(id); m != nil && takeOut(c, m, f.ID) {
			removed++
		}
	}
	return map[string]int{"removed": removed}, nil
}
