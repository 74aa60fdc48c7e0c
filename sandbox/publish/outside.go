package publish

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/ledger"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// somePost returns the post given by in.Ref, or else the newest published post of the creator. It must fit.
func somePost(c *world.Creator, in fanaction.Input, fits func(*row.Post) bool) (*row.Post, error) {
	if in.Ref != 0 {
		p := c.Posts().Get(in.Ref)
		if p == nil || p.Author != c.Profile.ID {
			return nil, fmt.Errorf("post %d does not exist or belongs to another user", in.Ref)
		}
		if !fits(p) {
			return nil, fmt.Errorf("post %d is not in a state that allows this", in.Ref)
		}
		return p, nil
	}
	var newest *row.Post
	for _, p := range c.Posts().All() {
		if p.Author == c.Profile.ID && stateOf(p) == "published" && fits(p) && (newest == nil || p.Published.After(newest.Published)) {
			newest = p
		}
	}
	if newest == nil {
		return nil, errors.New("no post allows this: publish one first")
	}
	return newest, nil
}

func anyPost(*row.Post) bool { return true }

// writtenOutside creates a post as if the creator wrote it in the platform's own app.
func writtenOutside(c *world.Creator, in fanaction.Input) *row.Post {
	p := &row.Post{
		Rec: row.Rec{ID: c.Posts().NextID()}, Author: c.Profile.ID, Text: in.Words("Posted from my phone."), Price: int64(in.Amount), At: c.Now(),
	}
	c.Posts().Put(p)
	return p
}

func postFromPhone(c *world.Creator, in fanaction.Input) error {
	publishPost(c, writtenOutside(c, in).ID)
	return nil
}

func editOnPhone(c *world.Creator, in fanaction.Input) error {
	p, err := somePost(c, in, anyPost)
	if err != nil {
		return err
	}
	p.Text = in.Words(p.Text + " (edited)")
	savePost(c, p, "text")
	return nil
}

// deleteOnPhone deletes the given post, or else a new one, so that the creator's own posts stay.
func deleteOnPhone(c *world.Creator, in fanaction.Input) error {
	if in.Ref == 0 {
		p := writtenOutside(c, in)
		publishPost(c, p.ID)
		removePost(c, p)
		return nil
	}
	p, err := somePost(c, in, anyPost)
	if err != nil {
		return err
	}
	removePost(c, p)
	return nil
}

// expireNow expires the given post, or else the newest post with an expiry, or else a new one.
func expireNow(c *world.Creator, in fanaction.Input) error {
	p, err := somePost(c, in, func(p *row.Post) bool {
		return !p.Published.IsZero() && !p.Expired && (in.Ref != 0 || !p.Expires.IsZero())
	})
	if err != nil && in.Ref != 0 {
		return err
	}
	if err != nil {
		p = writtenOutside(c, in)
		publishPost(c, p.ID)
	}
	p.Expires = c.Now()
	expirePost(c, p.ID)
	return nil
}

// fanFor returns the given person, or else a fan who is not in known.
func fanFor(c *world.Creator, in fanaction.Input, known map[int64]bool) (*row.Person, error) {
	if in.User != 0 {
		return in.Person(c)
	}
	p, err := in.Some(c, func(p *row.Person) bool { return p.Sub.Active(c.Now()) && !p.Blocked && !known[p.ID] })
	if err != nil {
		return nil, errors.New("every fan has already done this")
	}
	return p, nil
}

func likeByFan(c *world.Creator, in fanaction.Input) error {
	p, err := somePost(c, in, func(p *row.Post) bool { return !p.Published.IsZero() })
	if err != nil {
		return err
	}
	known := map[int64]bool{}
	for _, l := range likers(c, p) {
		known[l.person] = true
	}
	fan, err := fanFor(c, in, known)
	if err != nil {
		return err
	}
	if known[fan.ID] {
		return fmt.Errorf("user %d already likes this post", fan.ID)
	}
	p.Likers = append(slices.Clone(p.Likers), fan.ID)
	p.Views++
	c.Posts().Put(p)
	c.Emit(frameLiked, map[string]any{"post_id": p.ID, "user": view.Person(c, fan)})
	ledger.Notify(c, &row.Notice{Type: "likes", Text: ledger.Name(fan) + " likes your post.", Person: fan.ID, RefKind: row.KindPost, Ref: p.ID})
	return nil
}

func commentByFan(c *world.Creator, in fanaction.Input) error {
	p, err := somePost(c, in, func(p *row.Post) bool { return !p.Published.IsZero() })
	if err != nil {
		return err
	}
	fan, err := in.Person(c)
	if err != nil {
		return err
	}
	table := c.Comments(p.ID)
	m := &row.Comment{Rec: row.Rec{ID: table.NextID()}, Parent: p.ID, Author: fan.ID, Text: in.Words("This made my day."), At: c.Now()}
	table.Put(m)
	p.Views++
	c.Posts().Put(p)
	c.Emit(frameCommented, map[string]any{"post_id": p.ID, "comment": view.Comment(c, m)})
	ledger.Notify(c, &row.Notice{Type: "comments", Text: ledger.Name(fan) + " commented: " + m.Text, Person: fan.ID, RefKind: row.KindPost, Ref: p.ID})
	return nil
}

// buyPost makes a fan buy a post that has a price and that the fan has not bought yet.
func buyPost(c *world.Creator, in fanaction.Input) error {
	p, err := somePost(c, in, func(p *row.Post) bool { return p.Price > 0 && !p.Published.IsZero() })
	if err != nil {
		return err
	}
	known := map[int64]bool{}
	for _, t := range c.Paid(p.ID) {
		known[t.Person] = known[t.Person] || t.Type == "post"
	}
	fan, err := fanFor(c, in, known)
	if err != nil {
		return err
	}
	if known[fan.ID] {
		return fmt.Errorf("user %d has already bought this post", fan.ID)
	}
	t := ledger.Book(c, &row.Tx{Type: "post", Gross: p.Price, Person: fan.ID, RefKind: row.KindPost, Ref: p.ID})
	p.Views++
	c.Posts().Put(p)
	c.Emit(frameBought, map[string]any{
		"post_id": p.ID, "user": view.Person(c, fan), "price": view.Dollars(t.Gross), "net": view.Dollars(t.Net()), "transaction_id": t.ID,
	})
	ledger.Notify(c, &row.Notice{Type: "purchases", Text: ledger.Name(fan) + " bought your post.", Person: fan.ID, RefKind: row.KindPost, Ref: p.ID})
	return nil
}

// raise makes a fan tip a post that has a fundraising goal.
func raise(c *world.Creator, in fanaction.Input) error {
	p, err := somePost(c, in, func(p *row.Post) bool { return p.Fundraising != nil && !p.Published.IsZero() })
	if err != nil {
		return err
	}
	fan, err := in.Person(c)
	if err != nil {
		return err
	}
	t := ledger.Book(c, &row.Tx{Type: "tip", Gross: in.Cents(500), Person: fan.ID, RefKind: row.KindPost, Ref: p.ID, Text: in.Text})
	ledger.Notify(c, &row.Notice{
		Type: "tips", Text: fmt.Sprintf("%s gave $%d.%02d to your post.", ledger.Name(fan), t.Gross/100, t.Gross%100), Person: fan.ID,
		RefKind: row.KindPost, Ref: p.ID,
	})
	Tipped(c, p.ID)
	return nil
}

// Tipped sends a frame with the progress of a post's fundraising. Call it after booking a tip for a post. It ignores
// posts without fundraising and ids of other objects.
func Tipped(c *world.Creator, post int64) {
	p := c.Posts().Get(post)
	if p == nil || p.Fundraising == nil {
		return
	}
	f := view.Fundraising(c, p)
	c.Emit(frameRaised, map[string]any{"post_id": p.ID, "target": f.Target, "raised": f.Progress})
}

// mentionByOther makes another creator mention this one in a post.
func mentionByOther(c *world.Creator, in fanaction.Input) error {
	by, err := mentioner(c, in)
	if err != nil {
		return err
	}
	p := &row.Post{
		Rec: row.Rec{ID: c.Posts().NextID()}, Author: by.ID, Text: in.Words("A lovely evening with @" + c.Profile.Username + "."), At: c.Now(),
		Published: c.Now(), Mentions: []int64{c.Profile.ID},
	}
	c.Posts().Put(p)
	c.Emit(frameMention, map[string]any{"by": view.Person(c, by), "entity": "post", "entity_id": p.ID})
	ledger.Notify(c, &row.Notice{Type: "mentions", Text: ledger.Name(by) + " mentioned you.", Person: by.ID, RefKind: row.KindPost, Ref: p.ID})
	return nil
}

func mentioner(c *world.Creator, in fanaction.Input) (*row.Person, error) {
	if in.User != 0 {
		return in.Person(c)
	}
	return in.Some(c, func(p *row.Person) bool { return p.IsCreator && !p.Blocked })
}

// publishNext publishes the given item, or else the next item of the queue, or else a new post.
func publishNext(c *world.Creator, in fanaction.Input) error {
	q, err := nextQueued(c, in)
	if err != nil {
		return err
	}
	if q.Kind == "mass_message" {
		q.publish()
		return nil
	}
	if q.Kind == "post" {
		p := c.Posts().Get(q.ID)
		p.Scheduled = c.Now()
		publishPost(c, p.ID)
		return nil
	}
	s := c.Streams().Get(q.ID)
	s.Starts = c.Now()
	startStream(c, s.ID)
	return nil
}

// failNext makes publishing the item fail. A post goes back to the drafts; anything else is cancelled.
func failNext(c *world.Creator, in fanaction.Input) error {
	why := cmp.Or(in.Reason, "The platform could not publish this item.")
	q, err := nextQueued(c, in)
	if err != nil {
		return err
	}
	if q.Kind == "post" {
		failPost(c, c.Posts().Get(q.ID), why)
		return nil
	}
	q.drop()
	q.State = "failed"
	c.Emit(frameQueueFailed, map[string]any{"item": q.QueueView, "error": why})
	return nil
}

func nextQueued(c *world.Creator, in fanaction.Input) (*queued, error) {
	id := in.Ref
	if id == 0 {
		all := view.Queue(c)
		if len(all) == 0 {
			p := writtenOutside(c, in)
			p.Scheduled = c.Now().Add(time.Hour)
			c.Posts().Put(p)
			all = view.Queue(c)
		}
		id = all[0].ID
	}
	return find(c, id)
}
