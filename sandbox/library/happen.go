package library

import (
	"fmt"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// mediaArrives has a file come in that the creator uploaded elsewhere, in the platform's own app; or finishes the upload that is named.
func mediaArrives(c *world.Creator, in fanaction.Input) error {
	u, err := pending(c, in)
	if err != nil {
		return err
	}
	finishUpload(c, u.ID)
	return nil
}

// mediaBreaks has such a file turn out to be broken.
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

// pending is the upload that is named, or a new one; it is being processed.
func pending(c *world.Creator, in fanaction.Input) (*row.Upload, error) {
	if in.Ref != 0 {
		u := c.Uploads().Get(in.Ref)
		if u == nil {
			return nil, fmt.Errorf("upload %d does not exist", in.Ref)
		}
		if u.State != "processing" {
			return nil, fmt.Errorf("upload %d is not being processed: it is %s", in.Ref, u.State)
		}
		return u, nil
	}
	id := c.Uploads().NextID()
	name := in.Words(fmt.Sprintf("phone-%d.jpg", id%1000))
	u := &row.Upload{Rec: row.Rec{ID: id}, Name: name, MIME: "image/jpeg", Bytes: guessedSize(name), PartSize: seed.PartSize, At: c.Now()}
	process(c, u)
	return u, nil
}
