package library

import (
	"fmt"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// mediaArrives finishes the upload given by in.Ref, or else adds a file as if the creator uploaded it in the platform's
// app.
func mediaArrives(c *world.Creator, in fanaction.Input) error {
	u, err := pending(c, in)
	if err != nil {
		return err
	}
	finishUpload(c, u.ID)
	return nil
}

// mediaBreaks is like mediaArrives, but the file turns out to be damaged.
func mediaBreaks(c *world.Creator, in fanaction.Input) error {
	u, err := pending(c, in)
	if err != nil {
		return err
	}
	u.Error = "The file is damaged."
	if in.Reason != "" {
		u.Error = in.Reason
	}
	finishUpload(c, u.ID)
	return nil
}

// pending returns the upload given by in.Ref, or else a new one. Its state is processing.
func pending(c *world.Creator, in fanaction.Input) (*row.Upload, error) {
	if in.Ref != 0 {
		u := c.Uploads().Get(in.Ref)
		if u == nil {
			return nil, fmt.Errorf("upload %d does not exist", in.Ref)
		}
		if u.State != "processing" {
			return nil, fmt.Errorf("upload %d is not being processed: its state is %s", in.Ref, u.State)
		}
		return u, nil
	}
	id := c.Uploads().NextID()
	name := in.Words(fmt.Sprintf("phone-%d.jpg", id%1000))
	u := &row.Upload{Rec: row.Rec{ID: id}, Name: name, MIME: "image/jpeg", Bytes: guessedSize(name), PartSize: seed.PartSize, At: c.Now()}
	process(c, u)
	return u, nil
}
