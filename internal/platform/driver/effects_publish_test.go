package driver_test

import "github.com/stagedoor/stagedoor/sandbox/world"

const (
	published = `{"state":"published"}`
	comment1  = `{"postId":"$post:120","commentId":"$comment:12001"}`
	comment2  = `{"postId":"$post:120","commentId":"$comment:12002"}`
	comments  = `{"postId":"$post:120"}`
)

// postEffects are those of posts and comments. Of the seeded posts, 1 to 120 are published (119 is pinned, 108 has a poll that runs,
// 120 has comments of which the fourth is the creator's), 121 to 124 are scheduled, 125 is archived; 1021 is another creator's.
var postEffects = effects{
	"posts.create": {
		args: `{"text":"New set","mediaIds":["$media:3","$media:4"],"priceCents":500,"labelIds":["$label:1"],"expiresInDays":7,"poll":{"question":"Which?","options":["A","B"]},"fundraising":{"title":"A lamp","targetCents":30000},"mentionUserIds":["$fan:2003"]}`,
		see: []sight{
			sees("posts.get", `{"postId":"$.id"}`, "text", "New set", "media.1.id", "$media:4", "priceCents", 500, "isLocked", true, "labels.0.id", "$label:1",
				"poll.options.1.text", "B", "poll.votes", 0, "fundraising.targetCents", 30000, "fundraising.progressCents", 0, "authorId", "$me", "publishedAt", some, "expiresAt", some, "scheduledAt", nil),
			sees("posts.list", `{"limit":1}`, "items.0.id", "$.id"),
			sees("posts.list", `{"labelId":"$label:1","query":"new set"}`, "items[id=$.id]", some),
			sees("posts.listByUser", `{"userId":"$me","limit":1}`, "items.0.id", "$.id"),
			sees("me.get", "{}", "postsCount", plus(1)),
			sees("labels.list", "{}", "items[id=$label:1].postsCount", plus(1)),
			sees("vault.listUsage", `{"mediaId":"$media:3"}`, "items[refId=$.id].kind", "post"),
			tells("postPublished", "post.id", "$.id", "post.text", "New set"),
		},
	},
	"posts.create/later": {args: `{"text":"In time","scheduledAt":"2035-01-01T18:00:00Z"}`, wait: none, see: []sight{
		sees("posts.get", `{"postId":"$.id"}`, "", theAnswer, "publishedAt", nil, "scheduledAt", "2035-01-01T18:00:00.000Z"),
		sees("posts.list", `{"state":"scheduled"}`, "items[id=$.id].text", "In time"),
		sees("posts.list", published, "items[id=$.id]", still{absent}),
		sees("queue.list", span, "items[refId=$.id].kind", "post", "items[refId=$.id].scheduledAt", "2035-01-01T18:00:00.000Z"),
		sees("queue.count", span, "total", plus(1)),
		sees("me.getCounts", "{}", "queue", plus(1)),
	}},
	"posts.create/saved": {args: `{"text":"Not yet","priceCents":300,"saveForLater":true}`, wait: none, see: []sight{
		sees("drafts.get", `{"kind":"post","draftId":"$.id"}`, "text", "Not yet", "priceCents", 300),
		sees("drafts.list", `{"kind":"post"}`, "items[id=$.id].text", "Not yet"),
		sees("posts.list", `{"state":"scheduled"}`, "items[id=$.id]", still{absent}),
	}},
	"posts.update": {
		args: `{"postId":"$post:120","text":"With pictures","mediaIds":["$media:5"],"priceCents":700,"labelIds":["$label:2","$label:3"]}`,
		see: []sight{
			sees("posts.get", `{"postId":"$post:120"}`, "", theAnswer, "text", "With pictures", "media.0.id", "$media:5", "priceCents", 700, "labels.1.id", "$label:3"),
			sees("posts.list", `{"labelId":"$label:3"}`, "items[id=$post:120]", some),
			tells("postUpdated", "postId", "$post:120", "changes", []string{"text", "media", "priceCents", "labels"}),
		},
	},
	"posts.update/its time": {args: `{"postId":"$post:121","scheduledAt":"2035-01-01T18:00:00Z"}`, see: []sight{
		sees("posts.get", `{"postId":"$post:121"}`, "", theAnswer, "scheduledAt", "2035-01-01T18:00:00.000Z"),
		sees("queue.list", span, "items[refId=$post:121].scheduledAt", "2035-01-01T18:00:00.000Z"),
		tells("postUpdated", "postId", "$post:121", "changes", []string{"scheduledAt"}),
	}},
	"posts.delete": {args: `{"postId":"$post:119"}`, see: []sight{
		gone("posts.get", `{"postId":"$post:119"}`),
		gone("comments.list", `{"postId":"$post:119"}`),
		sees("posts.list", published, "items[id=$post:119]", absent, "items.#", plus(-1)),
		sees("me.get", "{}", "postsCount", plus(-1)),
		tells("postDeleted", "postId", "$post:119"),
	}},
	"posts.archive": {args: `{"postId":"$post:119"}`, see: []sight{
		sees("posts.get", `{"postId":"$post:119"}`, "", theAnswer, "isArchived", true, "isPinned", false),
		sees("posts.list", `{"state":"archived"}`, "items[id=$post:119]", some),
		sees("posts.list", published, "items[id=$post:119]", absent),
		sees("me.get", "{}", "postsCount", plus(-1)),
		tells("postUpdated", "postId", "$post:119", "changes", []string{"isArchived"}),
	}},
	"posts.archive/private": {args: `{"postId":"$post:12","private":true}`, see: []sight{
		sees("posts.list", `{"state":"private"}`, "items[id=$post:12].isArchived", true),
		sees("posts.list", published, "items[id=$post:12]", absent),
	}},
	"posts.unarchive": {args: `{"postId":"$post:125"}`, see: []sight{
		sees("posts.get", `{"postId":"$post:125"}`, "", theAnswer, "isArchived", false),
		sees("posts.list", published, "items[id=$post:125]", some),
		sees("posts.list", `{"state":"archived"}`, "items[id=$post:125]", absent),
		tells("postUpdated", "postId", "$post:125"),
	}},
	"posts.pin": {args: `{"postId":"$post:118"}`, see: []sight{
		sees("posts.list", `{"pinned":true}`, "items[id=$post:118]", some),
		sees("posts.get", `{"postId":"$post:118"}`, "isPinned", true),
	}},
	"posts.unpin": {args: `{"postId":"$post:119"}`, see: []sight{
		sees("posts.list", `{"pinned":true}`, "items[id=$post:119]", absent),
		sees("posts.get", `{"postId":"$post:119"}`, "isPinned", false),
	}},
	"posts.like": {args: `{"postId":"$post:1021"}`, see: []sight{
		sees("posts.get", `{"postId":"$post:1021"}`, "likes", plus(1)),
		sees("posts.listLikers", `{"postId":"$post:1021","limit":1}`, "items.0.id", "$me"),
	}},
	"posts.unlike": {first: []step{{do: "posts.like", args: `{"postId":"$post:1021"}`}}, args: `{"postId":"$post:1021"}`, see: []sight{
		sees("posts.get", `{"postId":"$post:1021"}`, "likes", plus(-1)),
		sees("posts.listLikers", `{"postId":"$post:1021"}`, "items[id=$me]", absent),
	}},
	"posts.votePoll": {args: `{"postId":"$post:108","optionId":"$option:1072"}`, see: []sight{
		sees("posts.get", `{"postId":"$post:108"}`, "poll", theAnswer, "poll.votedOptionId", "$option:1072", "poll.votes", plus(1), "poll.options.1.votes", plus(1)),
	}},
	"posts.votePoll/another way": {
		first: []step{{do: "posts.votePoll", args: `{"postId":"$post:108","optionId":"$option:1072"}`}},
		args:  `{"postId":"$post:108","optionId":"$option:1073"}`,
		see: []sight{
			sees("posts.get", `{"postId":"$post:108"}`, "poll.votedOptionId", "$option:1073", "poll.votes", still{plus(0)}, "poll.options.1.votes", plus(-1), "poll.options.2.votes", plus(1)),
		},
	},

	"comments.create": {args: `{"postId":"$post:120","text":"Thank you all!","replyToId":"$comment:12001","gifId":"2800000003"}`, see: []sight{
		sees("comments.list", comments, "items[id=$.id]", theAnswer, "items[id=$.id].text", "Thank you all!", "items[id=$.id].replyToId", "$comment:12001", "items[id=$.id].author.id", "$me"),
		sees("posts.get", comments, "comments", plus(1)),
		tells("postCommented", "postId", "$post:120", "comment.id", "$.id"),
	}},
	"comments.update": {args: `{"postId":"$post:120","commentId":"$comment:12004","text":"All of you!"}`, see: []sight{
		sees("comments.list", comments, "items[id=$comment:12004]", theAnswer, "items[id=$comment:12004].text", "All of you!"),
	}},
	"comments.delete": {args: comment1, see: []sight{
		sees("comments.list", comments, "items[id=$comment:12001]", absent),
		sees("posts.get", comments, "comments", plus(-1)),
	}},
	"comments.like": {args: comment1, see: []sight{
		sees("comments.list", comments, "items[id=$comment:12001].isLiked", true, "items[id=$comment:12001].likes", plus(1)),
	}},
	"comments.unlike": {first: []step{{do: "comments.like", args: comment1}}, args: comment1, see: []sight{
		sees("comments.list", comments, "items[id=$comment:12001].isLiked", false, "items[id=$comment:12001].likes", plus(-1)),
	}},
	"comments.pin": {first: []step{{do: "comments.pin", args: comment1}}, args: comment2, see: []sight{
		sees("comments.list", comments, "items[id=$comment:12002].isPinned", true, "items[id=$comment:12001].isPinned", false),
	}},
	"comments.unpin": {first: []step{{do: "comments.pin", args: comment2}}, args: comment2, see: []sight{
		sees("comments.list", comments, "items[id=$comment:12002].isPinned", false),
	}},
}

const (
	highlight1 = `{"highlightId":"$highlight:1"}`
	story1     = `{"mediaId":"$media:3","text":"Good morning"}`
)

// publishEffects are those of labels, stories, highlights and streams. Label 5 is on post 9; highlight 1 has the stories 1 to 3;
// stream 9 is live, 7 and 8 are planned.
var publishEffects = effects{
	"labels.create": {args: `{"name":"Tour 2027"}`, see: []sight{
		sees("labels.list", "{}", "items[id=$.id]", theAnswer, "items[id=$.id].name", "Tour 2027", "items[id=$.id].postsCount", 0),
	}},
	"labels.update": {args: `{"labelId":"$label:5","name":"The best"}`, see: []sight{
		sees("labels.list", "{}", "items[id=$label:5]", theAnswer, "items[id=$label:5].name", "The best"),
		sees("posts.get", `{"postId":"$post:9"}`, "labels[id=$label:5].name", "The best"),
	}},
	"labels.delete": {args: `{"labelId":"$label:5"}`, see: []sight{
		sees("labels.list", "{}", "items[id=$label:5]", absent),
		sees("posts.get", `{"postId":"$post:9"}`, "labels", []any{}),
		gone("posts.list", `{"labelId":"$label:5"}`),
	}},

	"stories.create": {args: `{"mediaId":"$media:3","text":"Good morning","linkUserId":"$fan:2003","questionText":"How are you?"}`, see: []sight{
		sees("stories.listActive", "{}", "items[id=$.id].text", "Good morning"),
		sees("stories.get", `{"storyId":"$.id"}`, "", theAnswer, "text", "Good morning", "media.0.id", "$media:3", "views", 0),
		sees("vault.listUsage", `{"mediaId":"$media:3"}`, "items[refId=$.id].kind", "story"),
		tells("storyPublished", "story.id", "$.id"),
	}},
	"stories.delete": {first: []step{{do: "stories.create", args: story1}}, args: `{"storyId":"$1.id"}`, see: []sight{
		gone("stories.get", `{"storyId":"$1.id"}`),
		sees("stories.listActive", "{}", "items[id=$1.id]", absent),
	}},
	"stories.delete/of a highlight": {args: `{"storyId":"$story:2"}`, see: []sight{
		sees("stories.listArchive", "{}", "items[id=$story:2]", absent),
		sees("highlights.get", highlight1, "storyIds", []string{"$story:1", "$story:3"}),
	}},
	"stories.markWatched": {
		args: `{"storyId":"$story:32"}`, unseen: "the catalog's Story does not show what the creator has seen", see: []sight{answers("ok", true)},
		inside: func(c *world.Creator, id func(string) int64) any { return c.Stories().Get(id("$story:32")).Watched }, want: true,
	},

	"highlights.create": {args: `{"title":"Spring","storyIds":["$story:20","$story:21"],"coverStoryId":"$story:21"}`, see: []sight{
		sees("highlights.get", `{"highlightId":"$.id"}`, "", theAnswer, "title", "Spring", "storyIds", []string{"$story:20", "$story:21"}),
		sees("highlights.list", "{}", "items[id=$.id].title", "Spring"),
	}},
	"highlights.update": {args: `{"highlightId":"$highlight:1","title":"On tour","storyIds":["$story:20","$story:3"],"coverStoryId":"$story:20"}`, see: []sight{
		sees("highlights.get", highlight1, "", theAnswer, "title", "On tour", "storyIds", []string{"$story:20", "$story:3"}, "coverUrl", some),
		sees("highlights.list", "{}", "items[id=$highlight:1].title", "On tour"),
	}},
	"highlights.delete": {args: highlight1, see: []sight{
		gone("highlights.get", highlight1),
		sees("highlights.list", "{}", "items[id=$highlight:1]", absent),
	}},
	"highlights.addStory": {args: `{"highlightId":"$highlight:1","storyId":"$story:22"}`, see: []sight{
		sees("highlights.get", highlight1, "storyIds", []string{"$story:1", "$story:2", "$story:3", "$story:22"}, "", theAnswer),
	}},
	// The story is the cover, so another one becomes it.
	"highlights.removeStory": {args: `{"highlightId":"$highlight:1","storyId":"$story:2"}`, see: []sight{
		sees("highlights.get", highlight1, "storyIds", []string{"$story:1", "$story:3"}, "coverUrl", some, "", theAnswer),
	}},

	"streams.schedule": {args: `{"title":"Request hour","startsAt":"2031-05-01T20:00:00Z","description":"Ask!","audience":"lists","listIds":["$list:7"],"tipGoalCents":50000}`, see: []sight{
		sees("streams.get", `{"streamId":"$.id"}`, "", theAnswer, "title", "Request hour", "state", "scheduled", "startsAt", "2031-05-01T20:00:00.000Z", "tipGoalCents", 50000, "startedAt", nil),
		sees("streams.list", `{"state":"scheduled"}`, "items[id=$.id].title", "Request hour"),
		sees("queue.list", span, "items[refId=$.id].kind", "stream"),
		tells("stream", "stream.id", "$.id", "stream.state", "scheduled"),
	}},
	"streams.schedule/now": {args: `{"title":"Now","startsAt":"2026-01-01T00:00:00Z"}`, wait: []string{"stream", "streamStarted"}, see: []sight{
		sees("streams.get", `{"streamId":"$.id"}`, "state", "live", "startedAt", some),
		sees("streams.list", `{"state":"live"}`, "items[id=$.id]", some),
	}},
	"streams.update": {args: `{"streamId":"$stream:7","title":"Talk and songs","startsAt":"2031-05-01T20:00:00Z"}`, see: []sight{
		sees("streams.get", `{"streamId":"$stream:7"}`, "", theAnswer, "title", "Talk and songs", "startsAt", "2031-05-01T20:00:00.000Z"),
		sees("queue.list", span, "items[refId=$stream:7].scheduledAt", "2031-05-01T20:00:00.000Z"),
		tells("streamUpdated", "stream.id", "$stream:7", "stream.title", "Talk and songs"),
	}},
	"streams.cancel": {args: `{"streamId":"$stream:8"}`, see: []sight{
		sees("streams.get", `{"streamId":"$stream:8"}`, "state", "canceled"),
		sees("streams.list", "{}", "items[id=$stream:8]", absent),
		sees("queue.list", span, "items[refId=$stream:8]", absent),
	}},
	"streams.stop": {args: `{"streamId":"$stream:9"}`, see: []sight{
		sees("streams.get", `{"streamId":"$stream:9"}`, "state", "ended", "endedAt", some),
		sees("streams.list", `{"state":"live"}`, "items[id=$stream:9]", absent),
		sees("streams.list", `{"state":"ended"}`, "items[id=$stream:9]", some),
		tells("streamStopped", "stream.id", "$stream:9", "stream.state", "ended"),
	}},
}

// queueEffects are those of the queue and of drafts. Posts 121 to 124, messages 25 and 26 to many and streams 7 and 8 are scheduled;
// posts 133 to 135 and the drafts 1 to 4 are saved.
var queueEffects = effects{
	"queue.publishNow": {args: `{"queueId":"$post:122"}`, see: []sight{
		sees("posts.get", `{"postId":"$post:122"}`, "publishedAt", some),
		sees("posts.list", `{"limit":1}`, "items.0.id", "$post:122"),
		sees("queue.list", span, "items[id=$post:122]", absent),
		tells("queuePublished", "item.id", "$post:122", "item.kind", "post"),
		tells("postPublished", "post.id", "$post:122"),
	}},
	"queue.publishNow/a message": {
		first: []step{{do: "massMessages.update", args: `{"massMessageId":"$mass:25","includeListIds":["$list:7"]}`}},
		args:  `{"queueId":"$mass:25"}`, wait: []string{"queuePublished", "massMessageSent"},
		see: []sight{
			sees("massMessages.get", `{"massMessageId":"$mass:25"}`, "state", "sent", "sentAt", some),
			sees("queue.list", span, "items[id=$mass:25]", absent),
			tells("queuePublished", "item.id", "$mass:25", "item.kind", "message"),
		},
	},
	"queue.publishNow/a stream": {args: `{"queueId":"$stream:7"}`, see: []sight{
		sees("streams.get", `{"streamId":"$stream:7"}`, "state", "live", "startedAt", some),
		sees("queue.list", span, "items[id=$stream:7]", absent),
		tells("queuePublished", "item.id", "$stream:7", "item.kind", "stream"),
	}},
	"queue.reschedule": {args: `{"queueId":"$post:123","scheduledAt":"2031-05-01T20:00:00Z"}`, see: []sight{
		sees("queue.list", span, "items[id=$post:123]", theAnswer, "items[id=$post:123].scheduledAt", "2031-05-01T20:00:00.000Z"),
		sees("posts.get", `{"postId":"$post:123"}`, "scheduledAt", "2031-05-01T20:00:00.000Z"),
	}},
	"queue.reschedule/a message": {args: `{"queueId":"$mass:26","scheduledAt":"2031-05-01T20:00:00Z"}`, see: []sight{
		sees("massMessages.get", `{"massMessageId":"$mass:26"}`, "scheduledAt", "2031-05-01T20:00:00.000Z"),
	}},
	"queue.reschedule/a stream": {args: `{"queueId":"$stream:8","scheduledAt":"2031-05-01T20:00:00Z"}`, see: []sight{
		sees("streams.get", `{"streamId":"$stream:8"}`, "startsAt", "2031-05-01T20:00:00.000Z"),
	}},
	"queue.delete": {args: `{"queueId":"$post:124"}`, see: []sight{
		sees("queue.list", span, "items[id=$post:124]", absent),
		gone("posts.get", `{"postId":"$post:124"}`),
	}},
	"queue.delete/a message": {args: `{"queueId":"$mass:26"}`, see: []sight{
		sees("massMessages.get", `{"massMessageId":"$mass:26"}`, "state", "canceled"),
		sees("queue.list", span, "items[id=$mass:26]", absent),
	}},

	"drafts.publish": {args: `{"kind":"post","draftId":"$post:133"}`, see: []sight{
		sees("posts.get", `{"postId":"$post:133"}`, "publishedAt", some),
		sees("posts.list", `{"limit":1}`, "items.0.id", "$post:133"),
		sees("drafts.list", `{"kind":"post"}`, "items[id=$post:133]", absent),
		tells("postPublished", "post.id", "$post:133"),
	}},
	"drafts.publish/later": {args: `{"kind":"post","draftId":"$post:133","scheduledAt":"2031-05-01T20:00:00Z"}`, wait: none, see: []sight{
		sees("posts.get", `{"postId":"$post:133"}`, "scheduledAt", "2031-05-01T20:00:00.000Z"),
		sees("queue.list", span, "items[refId=$post:133].kind", "post"),
		gone("drafts.get", `{"kind":"post","draftId":"$post:133"}`),
	}},
	"drafts.publish/a message": {args: `{"kind":"message","draftId":"$draft:2","scheduledAt":"2031-05-01T20:00:00Z"}`, wait: none, see: []sight{
		gone("drafts.get", `{"kind":"message","draftId":"$draft:2"}`),
		sees("massMessages.list", `{"state":"scheduled"}`, "items[scheduledAt=2031-05-01T20:00:00.000Z].text", "$.text", "items[scheduledAt=2031-05-01T20:00:00.000Z].priceCents", 800),
	}},
	"drafts.delete": {args: `{"kind":"message","draftId":"$draft:1"}`, see: []sight{
		gone("drafts.get", `{"kind":"message","draftId":"$draft:1"}`),
		sees("drafts.list", `{"kind":"message"}`, "items[id=$draft:1]", absent),
	}},
	"drafts.delete/a post": {args: `{"kind":"post","draftId":"$post:134"}`, see: []sight{
		gone("drafts.get", `{"kind":"post","draftId":"$post:134"}`),
		gone("posts.get", `{"postId":"$post:134"}`),
	}},
	"drafts.setAutomation": {args: `{"kind":"post","enabled":true,"intervalHours":48,"timeZone":"Europe/Lisbon"}`, see: []sight{
		sees("drafts.getAutomation", `{"kind":"post"}`, "", theAnswer, "enabled", true, "intervalHours", 48, "timeZone", "Europe/Lisbon", "nextAt", some),
		sees("drafts.getAutomation", `{"kind":"message"}`, "enabled", still{false}),
	}},
}
