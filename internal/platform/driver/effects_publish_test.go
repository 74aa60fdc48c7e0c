package driver_test

import "github.com/stagedoor/stagedoor/sandbox/world"

const (
	published = `{"state":"published"}`
	comment1  = `{"postId":"$post:120","commentId":"$comment:12001"}`
	comment2  = `{"postId":"$post:120","commentId":"$comment:12002"}`
	comments  = `{"postId":"$post:120"}`
)

// postEffects are the effects on posts and comments. Of the seeded posts, 1 to 120 are published (119 is pinned, 108
// has a running poll, and the fourth comment on 120 is the creator's), 121 to 124 are scheduled, 125 is archived, and
// 1021 belongs to another creator.
var postEffects = effects{
	"posts.create": {
		args: `{"text":"New set","mediaIds":["$media:3","$media:4"],"priceCents":500,"labelIds":["$label:1"],"expiresInDays":7,"poll":{"question":"Which?","options":["A","B"]},"fundraising":{"title":"A lamp","targetCents":30000},"mentionUserIds":["$fan:2003"]}`,
		see: []observation{
			shows("posts.get", `{"postId":"$.id"}`, "text", "New set", "media.1.id", "$media:4", "priceCents", 500, "isLocked", true, "labels.0.id", "$label:1",
				"poll.options.1.text", "B", "poll.votes", 0, "fundraising.targetCents", 30000, "fundraising.progressCents", 0, "authorId", "$me", "publishedAt", present, "expiresAt", present, "scheduledAt", nil),
			shows("posts.list", `{"limit":1}`, "items.0.id", "$.id"),
			shows("posts.list", `{"labelId":"$label:1","query":"new set"}`, "items[id=$.id]", present),
			shows("posts.listByUser", `{"userId":"$me","limit":1}`, "items.0.id", "$.id"),
			shows("me.get", "{}", "postsCount", plus(1)),
			shows("labels.list", "{}", "items[id=$label:1].postsCount", plus(1)),
			shows("vault.listUsage", `{"mediaId":"$media:3"}`, "items[refId=$.id].kind", "post"),
			emits("postPublished", "post.id", "$.id", "post.text", "New set"),
		},
	},
	"posts.create/later": {args: `{"text":"In time","scheduledAt":"2035-01-01T18:00:00Z"}`, wait: noEvents, see: []observation{
		shows("posts.get", `{"postId":"$.id"}`, "", theResult, "publishedAt", nil, "scheduledAt", "2035-01-01T18:00:00.000Z"),
		shows("posts.list", `{"state":"scheduled"}`, "items[id=$.id].text", "In time"),
		shows("posts.list", published, "items[id=$.id]", still{absent}),
		shows("queue.list", span, "items[refId=$.id].kind", "post", "items[refId=$.id].scheduledAt", "2035-01-01T18:00:00.000Z"),
		shows("queue.count", span, "total", plus(1)),
		shows("me.getCounts", "{}", "queue", plus(1)),
	}},
	"posts.create/saved": {args: `{"text":"Not yet","priceCents":300,"saveForLater":true}`, wait: noEvents, see: []observation{
		shows("drafts.get", `{"kind":"post","draftId":"$.id"}`, "text", "Not yet", "priceCents", 300),
		shows("drafts.list", `{"kind":"post"}`, "items[id=$.id].text", "Not yet"),
		shows("posts.list", `{"state":"scheduled"}`, "items[id=$.id]", still{absent}),
	}},
	"posts.update": {
		args: `{"postId":"$post:120","text":"With pictures","mediaIds":["$media:5"],"priceCents":700,"labelIds":["$label:2","$label:3"]}`,
		see: []observation{
			shows("posts.get", `{"postId":"$post:120"}`, "", theResult, "text", "With pictures", "media.0.id", "$media:5", "priceCents", 700, "labels.1.id", "$label:3"),
			shows("posts.list", `{"labelId":"$label:3"}`, "items[id=$post:120]", present),
			emits("postUpdated", "postId", "$post:120", "changes", []string{"text", "media", "priceCents", "labels"}),
		},
	},
	"posts.update/its time": {args: `{"postId":"$post:121","scheduledAt":"2035-01-01T18:00:00Z"}`, see: []observation{
		shows("posts.get", `{"postId":"$post:121"}`, "", theResult, "scheduledAt", "2035-01-01T18:00:00.000Z"),
		shows("queue.list", span, "items[refId=$post:121].scheduledAt", "2035-01-01T18:00:00.000Z"),
		emits("postUpdated", "postId", "$post:121", "changes", []string{"scheduledAt"}),
	}},
	"posts.delete": {args: `{"postId":"$post:119"}`, see: []observation{
		notFound("posts.get", `{"postId":"$post:119"}`),
		notFound("comments.list", `{"postId":"$post:119"}`),
		shows("posts.list", published, "items[id=$post:119]", absent, "items.#", plus(-1)),
		shows("me.get", "{}", "postsCount", plus(-1)),
		emits("postDeleted", "postId", "$post:119"),
	}},
	"posts.archive": {args: `{"postId":"$post:119"}`, see: []observation{
		shows("posts.get", `{"postId":"$post:119"}`, "", theResult, "isArchived", true, "isPinned", false),
		shows("posts.list", `{"state":"archived"}`, "items[id=$post:119]", present),
		shows("posts.list", published, "items[id=$post:119]", absent),
		shows("me.get", "{}", "postsCount", plus(-1)),
		emits("postUpdated", "postId", "$post:119", "changes", []string{"isArchived"}),
	}},
	"posts.archive/private": {args: `{"postId":"$post:12","private":true}`, see: []observation{
		shows("posts.list", `{"state":"private"}`, "items[id=$post:12].isArchived", true),
		shows("posts.list", published, "items[id=$post:12]", absent),
	}},
	"posts.unarchive": {args: `{"postId":"$post:125"}`, see: []observation{
		shows("posts.get", `{"postId":"$post:125"}`, "", theResult, "isArchived", false),
		shows("posts.list", published, "items[id=$post:125]", present),
		shows("posts.list", `{"state":"archived"}`, "items[id=$post:125]", absent),
		emits("postUpdated", "postId", "$post:125"),
	}},
	"posts.pin": {args: `{"postId":"$post:118"}`, see: []observation{
		shows("posts.list", `{"pinned":true}`, "items[id=$post:118]", present),
		shows("posts.get", `{"postId":"$post:118"}`, "isPinned", true),
	}},
	"posts.unpin": {args: `{"postId":"$post:119"}`, see: []observation{
		shows("posts.list", `{"pinned":true}`, "items[id=$post:119]", absent),
		shows("posts.get", `{"postId":"$post:119"}`, "isPinned", false),
	}},
	"posts.like": {args: `{"postId":"$post:1021"}`, see: []observation{
		shows("posts.get", `{"postId":"$post:1021"}`, "likes", plus(1)),
		shows("posts.listLikers", `{"postId":"$post:1021","limit":1}`, "items.0.id", "$me"),
	}},
	"posts.unlike": {first: []step{{do: "posts.like", args: `{"postId":"$post:1021"}`}}, args: `{"postId":"$post:1021"}`, see: []observation{
		shows("posts.get", `{"postId":"$post:1021"}`, "likes", plus(-1)),
		shows("posts.listLikers", `{"postId":"$post:1021"}`, "items[id=$me]", absent),
	}},
	"posts.votePoll": {args: `{"postId":"$post:108","optionId":"$option:1072"}`, see: []observation{
		shows("posts.get", `{"postId":"$post:108"}`, "poll", theResult, "poll.votedOptionId", "$option:1072", "poll.votes", plus(1), "poll.options.1.votes", plus(1)),
	}},
	"posts.votePoll/another way": {
		first: []step{{do: "posts.votePoll", args: `{"postId":"$post:108","optionId":"$option:1072"}`}},
		args:  `{"postId":"$post:108","optionId":"$option:1073"}`,
		see: []observation{
			shows("posts.get", `{"postId":"$post:108"}`, "poll.votedOptionId", "$option:1073", "poll.votes", still{plus(0)}, "poll.options.1.votes", plus(-1), "poll.options.2.votes", plus(1)),
		},
	},

	"comments.create": {args: `{"postId":"$post:120","text":"Thank you all!","replyToId":"$comment:12001","gifId":"2800000003"}`, see: []observation{
		shows("comments.list", comments, "items[id=$.id]", theResult, "items[id=$.id].text", "Thank you all!", "items[id=$.id].replyToId", "$comment:12001", "items[id=$.id].author.id", "$me"),
		shows("posts.get", comments, "comments", plus(1)),
		emits("postCommented", "postId", "$post:120", "comment.id", "$.id"),
	}},
	"comments.update": {args: `{"postId":"$post:120","commentId":"$comment:12004","text":"All of you!"}`, see: []observation{
		shows("comments.list", comments, "items[id=$comment:12004]", theResult, "items[id=$comment:12004].text", "All of you!"),
	}},
	"comments.delete": {args: comment1, see: []observation{
		shows("comments.list", comments, "items[id=$comment:12001]", absent),
		shows("posts.get", comments, "comments", plus(-1)),
	}},
	"comments.like": {args: comment1, see: []observation{
		shows("comments.list", comments, "items[id=$comment:12001].isLiked", true, "items[id=$comment:12001].likes", plus(1)),
	}},
	"comments.unlike": {first: []step{{do: "comments.like", args: comment1}}, args: comment1, see: []observation{
		shows("comments.list", comments, "items[id=$comment:12001].isLiked", false, "items[id=$comment:12001].likes", plus(-1)),
	}},
	"comments.pin": {first: []step{{do: "comments.pin", args: comment1}}, args: comment2, see: []observation{
		shows("comments.list", comments, "items[id=$comment:12002].isPinned", true, "items[id=$comment:12001].isPinned", false),
	}},
	"comments.unpin": {first: []step{{do: "comments.pin", args: comment2}}, args: comment2, see: []observation{
		shows("comments.list", comments, "items[id=$comment:12002].isPinned", false),
	}},
}

const (
	highlight1 = `{"highlightId":"$highlight:1"}`
	story1     = `{"mediaId":"$media:3","text":"Good morning"}`
)

// publishEffects are the effects on labels, stories, highlights and streams. In the seed, label 5 is on post 9,
// highlight 1 has the stories 1 to 3, stream 9 is live, and 7 and 8 are scheduled.
var publishEffects = effects{
	"labels.create": {args: `{"name":"Tour 2027"}`, see: []observation{
		shows("labels.list", "{}", "items[id=$.id]", theResult, "items[id=$.id].name", "Tour 2027", "items[id=$.id].postsCount", 0),
	}},
	"labels.update": {args: `{"labelId":"$label:5","name":"The best"}`, see: []observation{
		shows("labels.list", "{}", "items[id=$label:5]", theResult, "items[id=$label:5].name", "The best"),
		shows("posts.get", `{"postId":"$post:9"}`, "labels[id=$label:5].name", "The best"),
	}},
	"labels.delete": {args: `{"labelId":"$label:5"}`, see: []observation{
		shows("labels.list", "{}", "items[id=$label:5]", absent),
		shows("posts.get", `{"postId":"$post:9"}`, "labels", []any{}),
		notFound("posts.list", `{"labelId":"$label:5"}`),
	}},

	"stories.create": {args: `{"mediaId":"$media:3","text":"Good morning","linkUserId":"$fan:2003","questionText":"How are you?"}`, see: []observation{
		shows("stories.listActive", "{}", "items[id=$.id].text", "Good morning"),
		shows("stories.get", `{"storyId":"$.id"}`, "", theResult, "text", "Good morning", "media.0.id", "$media:3", "views", 0),
		shows("vault.listUsage", `{"mediaId":"$media:3"}`, "items[refId=$.id].kind", "story"),
		emits("storyPublished", "story.id", "$.id"),
	}},
	"stories.delete": {first: []step{{do: "stories.create", args: story1}}, args: `{"storyId":"$1.id"}`, see: []observation{
		notFound("stories.get", `{"storyId":"$1.id"}`),
		shows("stories.listActive", "{}", "items[id=$1.id]", absent),
	}},
	"stories.delete/of a highlight": {args: `{"storyId":"$story:2"}`, see: []observation{
		shows("stories.listArchive", "{}", "items[id=$story:2]", absent),
		shows("highlights.get", highlight1, "storyIds", []string{"$story:1", "$story:3"}),
	}},
	"stories.markWatched": {
		args: `{"storyId":"$story:32"}`, unseen: "the catalog's Story does not show what the creator has seen", see: []observation{returns("ok", true)},
		inside: func(c *world.Creator, id func(string) int64) any { return c.Stories().Get(id("$story:32")).Watched }, want: true,
	},

	"highlights.create": {args: `{"title":"Spring","storyIds":["$story:20","$story:21"],"coverStoryId":"$story:21"}`, see: []observation{
		shows("highlights.get", `{"highlightId":"$.id"}`, "", theResult, "title", "Spring", "storyIds", []string{"$story:20", "$story:21"}),
		shows("highlights.list", "{}", "items[id=$.id].title", "Spring"),
	}},
	"highlights.update": {args: `{"highlightId":"$highlight:1","title":"On tour","storyIds":["$story:20","$story:3"],"coverStoryId":"$story:20"}`, see: []observation{
		shows("highlights.get", highlight1, "", theResult, "title", "On tour", "storyIds", []string{"$story:20", "$story:3"}, "coverUrl", present),
		shows("highlights.list", "{}", "items[id=$highlight:1].title", "On tour"),
	}},
	"highlights.delete": {args: highlight1, see: []observation{
		notFound("highlights.get", highlight1),
		shows("highlights.list", "{}", "items[id=$highlight:1]", absent),
	}},
	"highlights.addStory": {args: `{"highlightId":"$highlight:1","storyId":"$story:22"}`, see: []observation{
		shows("highlights.get", highlight1, "storyIds", []string{"$story:1", "$story:2", "$story:3", "$story:22"}, "", theResult),
	}},
	// The story is the cover, so another story becomes the cover.
	"highlights.removeStory": {args: `{"highlightId":"$highlight:1","storyId":"$story:2"}`, see: []observation{
		shows("highlights.get", highlight1, "storyIds", []string{"$story:1", "$story:3"}, "coverUrl", present, "", theResult),
	}},

	"streams.schedule": {args: `{"title":"Request hour","startsAt":"2031-05-01T20:00:00Z","description":"Ask!","audience":"lists","listIds":["$list:7"],"tipGoalCents":50000}`, see: []observation{
		shows("streams.get", `{"streamId":"$.id"}`, "", theResult, "title", "Request hour", "state", "scheduled", "startsAt", "2031-05-01T20:00:00.000Z", "tipGoalCents", 50000, "startedAt", nil),
		shows("streams.list", `{"state":"scheduled"}`, "items[id=$.id].title", "Request hour"),
		shows("queue.list", span, "items[refId=$.id].kind", "stream"),
		emits("stream", "stream.id", "$.id", "stream.state", "scheduled"),
	}},
	"streams.schedule/now": {args: `{"title":"Now","startsAt":"2026-01-01T00:00:00Z"}`, wait: []string{"stream", "streamStarted"}, see: []observation{
		shows("streams.get", `{"streamId":"$.id"}`, "state", "live", "startedAt", present),
		shows("streams.list", `{"state":"live"}`, "items[id=$.id]", present),
	}},
	"streams.update": {args: `{"streamId":"$stream:7","title":"Talk and songs","startsAt":"2031-05-01T20:00:00Z"}`, see: []observation{
		shows("streams.get", `{"streamId":"$stream:7"}`, "", theResult, "title", "Talk and songs", "startsAt", "2031-05-01T20:00:00.000Z"),
		shows("queue.list", span, "items[refId=$stream:7].scheduledAt", "2031-05-01T20:00:00.000Z"),
		emits("streamUpdated", "stream.id", "$stream:7", "stream.title", "Talk and songs"),
	}},
	"streams.cancel": {args: `{"streamId":"$stream:8"}`, see: []observation{
		shows("streams.get", `{"streamId":"$stream:8"}`, "state", "canceled"),
		shows("streams.list", "{}", "items[id=$stream:8]", absent),
		shows("queue.list", span, "items[refId=$stream:8]", absent),
	}},
	"streams.stop": {args: `{"streamId":"$stream:9"}`, see: []observation{
		shows("streams.get", `{"streamId":"$stream:9"}`, "state", "ended", "endedAt", present),
		shows("streams.list", `{"state":"live"}`, "items[id=$stream:9]", absent),
		shows("streams.list", `{"state":"ended"}`, "items[id=$stream:9]", present),
		emits("streamStopped", "stream.id", "$stream:9", "stream.state", "ended"),
	}},
}

// queueEffects are the effects on the queue and on drafts. In the seed, posts 121 to 124, mass messages 25 and 26 and
// streams 7 and 8 are scheduled; posts 133 to 135 and drafts 1 to 4 are saved for later.
var queueEffects = effects{
	"queue.publishNow": {args: `{"queueId":"$post:122"}`, see: []observation{
		shows("posts.get", `{"postId":"$post:122"}`, "publishedAt", present),
		shows("posts.list", `{"limit":1}`, "items.0.id", "$post:122"),
		shows("queue.list", span, "items[id=$post:122]", absent),
		emits("queuePublished", "item.id", "$post:122", "item.kind", "post"),
		emits("postPublished", "post.id", "$post:122"),
	}},
	"queue.publishNow/a message": {
		first: []step{{do: "massMessages.update", args: `{"massMessageId":"$mass:25","includeListIds":["$list:7"]}`}},
		args:  `{"queueId":"$mass:25"}`, wait: []string{"queuePublished", "massMessageSent"},
		see: []observation{
			shows("massMessages.get", `{"massMessageId":"$mass:25"}`, "state", "sent", "sentAt", present),
			shows("queue.list", span, "items[id=$mass:25]", absent),
			emits("queuePublished", "item.id", "$mass:25", "item.kind", "message"),
		},
	},
	"queue.publishNow/a stream": {args: `{"queueId":"$stream:7"}`, see: []observation{
		shows("streams.get", `{"streamId":"$stream:7"}`, "state", "live", "startedAt", present),
		shows("queue.list", span, "items[id=$stream:7]", absent),
		emits("queuePublished", "item.id", "$stream:7", "item.kind", "stream"),
	}},
	"queue.reschedule": {args: `{"queueId":"$post:123","scheduledAt":"2031-05-01T20:00:00Z"}`, see: []observation{
		shows("queue.list", span, "items[id=$post:123]", theResult, "items[id=$post:123].scheduledAt", "2031-05-01T20:00:00.000Z"),
		shows("posts.get", `{"postId":"$post:123"}`, "scheduledAt", "2031-05-01T20:00:00.000Z"),
	}},
	"queue.reschedule/a message": {args: `{"queueId":"$mass:26","scheduledAt":"2031-05-01T20:00:00Z"}`, see: []observation{
		shows("massMessages.get", `{"massMessageId":"$mass:26"}`, "scheduledAt", "2031-05-01T20:00:00.000Z"),
	}},
	"queue.reschedule/a stream": {args: `{"queueId":"$stream:8","scheduledAt":"2031-05-01T20:00:00Z"}`, see: []observation{
		shows("streams.get", `{"streamId":"$stream:8"}`, "startsAt", "2031-05-01T20:00:00.000Z"),
	}},
	"queue.delete": {args: `{"queueId":"$post:124"}`, see: []observation{
		shows("queue.list", span, "items[id=$post:124]", absent),
		notFound("posts.get", `{"postId":"$post:124"}`),
	}},
	"queue.delete/a message": {args: `{"queueId":"$mass:26"}`, see: []observation{
		shows("massMessages.get", `{"massMessageId":"$mass:26"}`, "state", "canceled"),
		shows("queue.list", span, "items[id=$mass:26]", absent),
	}},

	"drafts.publish": {args: `{"kind":"post","draftId":"$post:133"}`, see: []observation{
		shows("posts.get", `{"postId":"$post:133"}`, "publishedAt", present),
		shows("posts.list", `{"limit":1}`, "items.0.id", "$post:133"),
		shows("drafts.list", `{"kind":"post"}`, "items[id=$post:133]", absent),
		emits("postPublished", "post.id", "$post:133"),
	}},
	"drafts.publish/later": {args: `{"kind":"post","draftId":"$post:133","scheduledAt":"2031-05-01T20:00:00Z"}`, wait: noEvents, see: []observation{
		shows("posts.get", `{"postId":"$post:133"}`, "scheduledAt", "2031-05-01T20:00:00.000Z"),
		shows("queue.list", span, "items[refId=$post:133].kind", "post"),
		notFound("drafts.get", `{"kind":"post","draftId":"$post:133"}`),
	}},
	"drafts.publish/a message": {args: `{"kind":"message","draftId":"$draft:2","scheduledAt":"2031-05-01T20:00:00Z"}`, wait: noEvents, see: []observation{
		notFound("drafts.get", `{"kind":"message","draftId":"$draft:2"}`),
		shows("massMessages.list", `{"state":"scheduled"}`, "items[scheduledAt=2031-05-01T20:00:00.000Z].text", "$.text", "items[scheduledAt=2031-05-01T20:00:00.000Z].priceCents", 800),
	}},
	"drafts.delete": {args: `{"kind":"message","draftId":"$draft:1"}`, see: []observation{
		notFound("drafts.get", `{"kind":"message","draftId":"$draft:1"}`),
		shows("drafts.list", `{"kind":"message"}`, "items[id=$draft:1]", absent),
	}},
	"drafts.delete/a post": {args: `{"kind":"post","draftId":"$post:134"}`, see: []observation{
		notFound("drafts.get", `{"kind":"post","draftId":"$post:134"}`),
		notFound("posts.get", `{"postId":"$post:134"}`),
	}},
	"drafts.setAutomation": {args: `{"kind":"post","enabled":true,"intervalHours":48,"timeZone":"Europe/Lisbon"}`, see: []observation{
		shows("drafts.getAutomation", `{"kind":"post"}`, "", theResult, "enabled", true, "intervalHours", 48, "timeZone", "Europe/Lisbon", "nextAt", present),
		shows("drafts.getAutomation", `{"kind":"message"}`, "enabled", still{false}),
	}},
}
