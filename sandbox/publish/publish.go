// Package publish is the platform's part about what a creator shows: posts, comments, labels, stories, highlights, streams, the
// queue and drafts.
//
// One file for each has the creator's operations. What happens to them by themselves is listed in Dues and stands beside the
// operations; what fans and other creators do is in outside.go. A draft of a post is a post that was saved; the queue has nothing of
// its own, it shows whatever is scheduled.
package publish

import (
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Frames of what is published.
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

// What happens by itself.
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

// moment is how long the platform takes for what it does not do at once.
const moment = 300 * time.Millisecond

// Routes are its operations.
func Routes() []wire.Route {
	return slices.Concat(postRoutes(), postWriteRoutes(), commentRoutes(), labelRoutes(), storyRoutes(), highlightRoutes(),
		streamRoutes(), queueRoutes(), draftRoutes())
}

// Dues are what happens by itself when its time has come.
func Dues() map[string]world.Handler {
	return map[string]world.Handler{
		duePublish: publishPost, dueExpire: expirePost, dueStory: publishStory, dueStoryEnd: expireStory, dueStart: startStream,
		dueStop: stopStream, duePostDraft: nextPostDraft, dueMessageDraft: nextMessageDraft,
	}
}

// Happenings are what the world outside can do.
func Happenings() map[string]fanaction.Func {
	return map[string]fanaction.Func{
		framePosted: postFromPhone, frameChanged: editOnPhone, frameDeleted: deleteOnPhone, frameExpired: expireNow, frameLiked: likeByFan,
		frameCommented: commentByFan, frameBought: buyPost, frameRaised: raise, frameMention: mentionByOther,
		frameStory: storyFromPhone, frameStoryEnd: storyEnds, frameStoryViewed: viewStory,
		framePlanned: planOnPhone, frameStarted: goLive, frameStopped: endLive, frameStream: renameLive, frameStreamWords: commentLive,
		frameViewers: joinLive, frameStreamLiked: likeLive, frameQueueDone: publishNext, frameQueueFailed: failNext,
	}
}

// Settle notes what the seed has scheduled, so that it happens by itself, and says when to ask again. people.Tick calls it before
// anything else happens to a creator; it works once and costs nothing afterwards.
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
	return now // asked again at once, it sees whether this was kept
}

// exist refuses ids of things that are not there.
func exist(field string, ids []int64, there func(int64) bool) error {
	for _, id := range ids {
		if !there(id) {
			return wire.Invalid(field, "One of these does not exist.")
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

// file puts media into one of the platform's own folders: that of posts, or that of stories.
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
