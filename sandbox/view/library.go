package view

import (
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// MediaView is the view of a picture, video, sound or GIF.
type MediaView struct {
	ID      int64   `json:"id"`
	Type    string  `json:"kind"`   // image, video, audio, gif
	State   string  `json:"status"` // converting, done, error
	Width   *int    `json:"width"`
	Height  *int    `json:"height"`
	Seconds *int    `json:"duration"`
	Bytes   *int64  `json:"size"`
	Thumb   *string `json:"thumb"`
	Folders []int64 `json:"folder_ids"`
	At      Stamp   `json:"created_at"`
}

// mediaStates maps the states of a medium to the platform's names for them.
var mediaStates = map[string]string{"processing": "converting", "ready": "done", "failed": "error"}

// Media returns the view of a medium.
func Media(c *world.Creator, m *row.Media) MediaView {
	v := MediaView{
		ID: m.ID, Type: m.Type, State: mediaStates[m.State], Width: Optional(m.Width), Height: Optional(m.Height),
		Seconds: Optional(m.Seconds),
		Bytes:   Optional(m.Bytes), Folders: NotNull(m.Folders), At: Stamp(m.At),
	}
	if m.Type == "photo" {
		v.Type = "image"
	}
	if m.State == "ready" && m.Type != "audio" {
		thumb := MediaURL(c, m.ID, "thumb")
		v.Thumb = &thumb
	}
	return v
}

// MediaList returns the views of the media with these ids, in this order. It skips deleted media.
func MediaList(c *world.Creator, ids []int64) []MediaView {
	list := []MediaView{}
	for _, id := range ids {
		if m := c.Media().Get(id); m != nil {
			list = append(list, Media(c, m))
		}
	}
	return list
}

// FolderView is the view of a folder of the vault.
type FolderView struct {
	ID     int64        `json:"id"`
	Name   string       `json:"name"`
	Counts FolderCounts `json:"media_counts"`
	System bool         `json:"is_builtin"`
	At     Stamp        `json:"created_at"`
}

// FolderCounts counts the media in a folder by type.
type FolderCounts struct {
	Photo int `json:"images"`
	Video int `json:"videos"`
	Audio int `json:"audios"`
	Gif   int `json:"gifs"`
}

// Folder returns the view of a folder.
func Folder(c *world.Creator, f *row.Folder) FolderView {
	v := FolderView{ID: f.ID, Name: f.Name, System: f.System != "", At: Stamp(f.At)}
	for _, m := range c.Media().All() {
		if slices.Contains(m.Folders, f.ID) {
			v.Counts.add(m.Type)
		}
	}
	return v
}

func (n *FolderCounts) add(kind string) {
	switch kind {
	case "photo":
		n.Photo++
	case "video":
		n.Video++
	case "audio":
		n.Audio++
	case "gif":
		n.Gif++
	}
}

// UploadView is the view of an upload.
type UploadView struct {
	ID       int64      `json:"id"`
	State    string     `json:"status"` // open, uploading, converting, done, error, aborted
	Name     string     `json:"file_name"`
	Bytes    int64      `json:"size"`
	PartSize int64      `json:"part_size"`
	Parts    []PartView `json:"parts"`
	Media    *int64     `json:"media_id"`
	Error    *string    `json:"error"`
}

// PartView is the view of an uploaded part.
type PartView struct {
	Number int    `json:"number"`
	Bytes  int    `json:"size"`
	ETag   string `json:"etag"`
}

// Upload returns the view of an upload.
func Upload(u *row.Upload) UploadView {
	v := UploadView{
		ID: u.ID, State: u.State, Name: u.Name, Bytes: u.Bytes, PartSize: u.PartSize, Parts: []PartView{},
		Media: Optional(u.Media),
		Error: Optional(u.Error),
	}
	if word, ok := mediaStates[u.State]; ok {
		v.State = word
	}
	for number, part := range u.Parts {
		v.Parts = append(v.Parts, PartView{Number: number, Bytes: part.Bytes, ETag: part.Tag})
	}
	slices.SortFunc(v.Parts, func(a, b PartView) int { return a.Number - b.Number })
	return v
}

// FormView is the view of a release form.
type FormView struct {
	ID      int64   `json:"id"`
	Name    string  `json:"full_name"`
	Email   *string `json:"email"`
	Status  string  `json:"status"`
	User    *User   `json:"user"`
	At      Stamp   `json:"created_at"`
	Expires Stamp   `json:"expires_at"`
}

// Form returns the view of a release form.
func Form(c *world.Creator, f *row.Form) FormView {
	return FormView{
		ID: f.ID, Name: f.Name, Email: Optional(f.Email), Status: f.Status, User: optionalUser(c, f.Person), At: Stamp(f.At),
		Expires: Stamp(f.Expires),
	}
}
