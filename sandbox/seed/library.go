package seed

import (
	"fmt"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
)

// Numbers of the folders: the system folders, then the creator's.
const (
	folderPosts = 1 + iota
	folderMessages
	folderStories
	folderStreams
	folderBest
	folderRed
	folderUnsorted
)

// MediaList returns the media of the vault, oldest first.
func MediaList(o row.Origin) []*row.Media {
	stories := map[int64]bool{}
	for _, s := range Stories(o) {
		stories[s.Media] = true
	}
	list := make([]*row.Media, Photos)
	for n := range list {
		list[n] = medium(o, n)
		if stories[list[n].ID] {
			list[n].Folders = append(list[n].Folders, row.SeedID(o.ID, row.KindFolder, folderStories))
		}
	}
	return list
}

// medium returns the n-th medium. It is some hours older than the post that shows it.
func medium(o row.Origin, n int) *row.Media {
	r := random(o, row.KindMedia, n)
	m := &row.Media{
		Rec: row.Rec{ID: row.SeedID(o.ID, row.KindMedia, n+1)}, Type: "photo", State: "ready", Width: 1080, Height: 1350,
		Bytes: int64(200_000 + r.IntN(2_000_000)), At: PostAt(o, n/2).Add(-5*time.Hour + time.Duration(n%2)*time.Minute),
	}
	extension := "jpg"
	switch {
	case n == 0: // the avatar
		m.Width, m.Height = 1080, 1080
	case n == 1: // the cover
		m.Width, m.Height = 1600, 600
	case n%10 == 7:
		m.Type, extension, m.Width, m.Height, m.Seconds, m.Bytes = "video", "mp4", 1920, 1080, 15+r.IntN(600), m.Bytes*20
	case n%40 == 9:
		m.Type, extension, m.Width, m.Height, m.Seconds = "audio", "wav", 0, 0, 20+r.IntN(200)
	case n%20 == 13:
		m.Type, extension, m.Width, m.Height = "gif", "gif", 480, 360
	case r.IntN(3) == 0:
		m.Width, m.Height = 1350, 1080
	}
	m.Name = fmt.Sprintf("%s-%03d.%s", pick(r, mediaWords), n+1, extension)
	folder := folderPosts
	if n%2 == 1 && n/2%3 != 0 {
		folder = folderMessages
	}
	m.Folders = []int64{row.SeedID(o.ID, row.KindFolder, folder)}
	if n%16 == 2 {
		m.Folders = append(m.Folders, row.SeedID(o.ID, row.KindFolder, folderBest))
	}
	if strings.HasPrefix(m.Name, "red") {
		m.Folders = append(m.Folders, row.SeedID(o.ID, row.KindFolder, folderRed))
	}
	return m
}

var mediaWords = []string{"beach", "studio", "backstage", "red-dress", "kitchen", "tour", "morning", "rain", "mirror", "garden"}

// Folders returns the folders of the vault: the system folders, and a few of the creator.
func Folders(o row.Origin) []*row.Folder {
	var list []*row.Folder
	for n, f := range []struct{ name, rule string }{
		{"Posts", "posts"}, {"Messages", "messages"}, {"Stories", "stories"}, {"Streams", "streams"},
		{"Best of", ""}, {"Red dress", ""}, {"To be sorted", ""},
	} {
		list = append(list, &row.Folder{
			Rec: row.Rec{ID: row.SeedID(o.ID, row.KindFolder, n+1)}, Name: f.name, System: f.rule, At: o.Anchor.Add(time.Duration(n-390) * day),
		})
	}
	return list
}

// PartSize is the size in bytes of the parts of an upload, except the last.
const PartSize = 5 << 20

// Uploads returns a few uploads: one with missing parts, one that only has to be completed, one without parts, and one
// that is complete.
func Uploads(o row.Origin) []*row.Upload {
	at := o.Anchor.Add(-time.Hour)
	media := row.SeedID(o.ID, row.KindMedia, Photos)
	list := []*row.Upload{
		{State: "uploading", Name: "tour-diary.mp4", MIME: "video/mp4", Bytes: 2*PartSize + 123_456, Parts: map[int]row.Part{1: {Bytes: PartSize}}},
		{State: "uploading", Name: "mirror.jpg", MIME: "image/jpeg", Bytes: 345_678, Parts: map[int]row.Part{1: {Bytes: 345_678}}},
		{State: "open", Name: "wrong-one.png", MIME: "image/png", Bytes: 1_234_567},
		{State: "ready", Name: fmt.Sprintf("upload-%03d.jpg", Photos), MIME: "image/jpeg", Bytes: 456_789, Parts: map[int]row.Part{1: {Bytes: 456_789}}, Media: media},
	}
	for n, u := range list {
		u.ID, u.PartSize, u.At = row.SeedID(o.ID, row.KindUpload, n+1), PartSize, at.Add(time.Duration(n)*time.Minute)
		for number, part := range u.Parts {
			r := random(o, row.KindUpload, n*100+number)
			part.Tag = fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())
			u.Parts[number] = part
		}
	}
	return list
}

// Forms returns the release forms of people who appear in media.
func Forms(o row.Origin) []*row.Form {
	var list []*row.Form
	for n, status := range []string{"approved", "approved", "approved", "pending", "approved", "rejected", "expired", "pending"} {
		r := random(o, row.KindForm, n)
		f := &row.Form{
			Rec: row.Rec{ID: row.SeedID(o.ID, row.KindForm, n+1)}, Name: pick(r, firstNames) + " " + pick(r, lastNames), Status: status,
			Code: fmt.Sprintf("%016x", r.Uint64()), At: o.Anchor.Add(-time.Duration(300-20*n) * day),
		}
		f.Email = strings.ToLower(strings.ReplaceAll(f.Name, " ", ".")) + "@mail.test"
		if status == "approved" {
			f.Person = row.SeedID(o.ID, row.KindPerson, Fans+Followed+1+n)
		}
		switch status {
		case "expired":
			f.Expires = o.Anchor.Add(-20 * day)
		case "pending":
			f.At = o.Anchor.Add(-time.Duration(n) * time.Hour)
			f.Expires = f.At.Add(14 * day)
		}
		list = append(list, f)
	}
	return list
}

// Gif is a GIF in the picker. All creators have the same GIFs.
type Gif struct {
	ID    int64
	Title string
}

// Key returns the id, which orders GIFs by popularity.
func (g *Gif) Key() int64 { return g.ID }

var (
	gifMoods    = []string{"Happy", "Sleepy", "Dancing", "Shocked", "Proud", "Hungry", "Waving", "Laughing", "Crying", "Winking"}
	gifSubjects = []string{"cat", "dog", "robot", "penguin", "coffee cup", "moon"}
)

// Gifs returns all GIFs, the most popular first.
func Gifs() []*Gif {
	list := make([]*Gif, 0, len(gifMoods)*len(gifSubjects))
	for n := range cap(list) {
		list = append(list, &Gif{ID: row.SeedID(0, row.KindGif, n+1), Title: gifMoods[n%len(gifMoods)] + " " + gifSubjects[n/len(gifMoods)]})
	}
	return list
}

// IsGif reports whether a GIF with this id exists.
func IsGif(id int64) bool {
	n, ok := row.Ordinal(0, row.KindGif, id)
	return ok && n >= 1 && n <= len(gifMoods)*len(gifSubjects)
}
