// Package publish implements what a creator publishes: posts, comments, labels, stories, highlights, streams, the queue
// and drafts.
//
// Each has a file with the creator's operations and the timer handlers that Dues lists. outside.go and outside_live.go
// hold what fans and other creators do. The draft of a post is a post with Saved set. The queue has no data of its own:
// it lists everything that is scheduled.
package publish

import (
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Frames of this package.
const (
	framePosted      = "post.published"
	frameChanged     = "post.updated"
	frameDeleted     = "post.deleted"
	frameExpired     = "post.expired"
	frameLiked       = "post.liked"
	frameCommented   = "post.commented"
	frameBought      = "post.purchased"
	frameRaised      = "post.fundraising"
	frameMention     = "mention.new"
	frameStory       = "story.published"
	frameStoryEnd    = "story.expired"
	frameStoryViewed = "story.viewed"
	framePlanned     = "stream.planned"
	frameStarted     = "stream.started"
	frameStopped     = "stream.stopped"
	frameStream      = "stream.updated"
	frameStreamWords = "stream.comment"
	frameViewers     = "stream.viewers"
	frameStreamLiked = "stream.liked"
	frameQueueDone   = "queue.published"
	frameQueueFailed = "queue.failed"
)

// Timers of this package.
const (
	duePublish      = "post.publish"
	dueExpire       = "post.expire"
	dueStory        = "story.publish"
	dueStoryEnd     = "story.expire"
	dueStart        = "stream.start"
	dueStop         = "stream.stop"
	duePostDraft    = "draft.post"
	dueMessageDraft = "draft.message"
)

// moment is how long an asynchronous step takes.
const moment = 300 * time.Millisecond

// Routes returns the operations of this package.
func Routes() []wire.Route {
	return slices.Concat(postRoutes(), postWriteRoutes(), commentRoutes(), labelRoutes(), storyRoutes(), highlightRoutes(),
		streamRoutes(), queueRoutes(), draftRoutes())
}

// Dues returns the handlers of the timers that this package sets.
func Dues() map[string]world.Handler {
	return map[string]world.Handler{
		duePublish: publishPost, dueExpire: expirePost, dueStory: publishStory, dueStoryEnd: expireStory, dueStart: startStream,
		dueStop: stopStream, duePostDraft: nextPostDraft, dueMessageDraft: nextMessageDraft,
	}
}

// Happenings returns the happenings of this package, keyed by the frame they send.
func Happenings() map[string]fanaction.Func {
	return map[string]fanaction.Func{
		framePosted: postFromPhone, frameChanged: editOnPhone, frameDeleted: deleteOnPhone, frameExpired: expireNow, frameLiked: likeByFan,
		frameCommented: commentByFan, frameBought: buyPost, frameRaised: raise, frameMention: mentionByOther,
		frameStory: storyFromPhone, frameStoryEnd: storyEnds, frameStoryViewed: viewStory,
		framePlanned: planOnPhone, frameStarted: goLive, frameStopped: endLive, frameStream: renameLive, frameStreamWords: commentLive,
		frameViewers: joinLive, frameStreamLiked: likeLive, frameQueueDone: publishNext, frameQueueFailed: failNext,
	}
}

// Settle sets the timers for what the seed has scheduled and returns when it must run again. people.Tick calls it
// before anything else happens to a creator. It does its work once and costs nothing afterwards.
func Settle(c *world.Creator) time.Time {
	now := c.Now()
	if c.Profile.Planned {
		return now.AddDate(1, 0, 0)
	}
	for _, p := range c.Posts().All() {
		if !p.Scheduled.IsZero() && p.Published.IsZero() {
			c.At(p.Scheduled, duePublish, p.ID)
		}
		if !p.Expires.IsZero() && !p.Expired {
			c.At(p.Expires, dueExpire, p.ID)
		}
	}
	for _, s := range c.Stories().All() {
		if !s.Expired {
			c.At(s.Expires, dueStoryEnd, s.ID)
		}
	}
	for _, s := range c.Streams().All() {
		if s.State == "scheduled" {
			c.At(s.Starts, dueStart, s.ID)
		}
	}
	c.Profile.Planned = true
	c.SaveProfile()
	return now // run again immediately, in case this is rolled back
}

// exist refuses a list of ids unless all of them exist.
func exist(field string, ids []int64, there func(int64) bool) error {
	for _, id := range ids {
		if !there(id) {
			return wire.Invalid(field, "At least one of these ids does not exist.")
		}
	}
	return nil
}

func mediaExist(c *world.Creator, field string, ids []int64) error {
	return exist(field, ids, func(id int64) bool {
		m := c.Media().Get(id)
		return m != nil && m.State != "failed"
	})
}

func formsExist(c *world.Creator, ids []int64) error {
	return exist("release_form_ids", ids, func(id int64) bool { return c.Forms().Get(id) != nil })
}

// file adds media to one of the system folders, posts or stories.
func file(c *world.Creator, system string, ids ...int64) {
	at := slices.IndexFunc(c.Folders().All(), func(f *row.Folder) bool { return f.System == system })
	if at < 0 {
		return
	}
	folder := c.Folders().All()[at].ID
	for _, id := range ids {
		if m := c.Media().Get(id); m != nil && !slices.Contains(m.Folders, folder) {
			m.Folders = append(slices.Clone(m.Folders), folder)
			c.Media().Put(m)
		}
	}
}
