package driver_test

import "github.com/stagedoor/stagedoor/sandbox/world"

// span is a range that contains everything scheduled.
const span = `{"from":"2026-01-01","to":"2036-12-31"}`

// written sends a message from the creator.
var written = []step{{do: "messages.send", args: `{"chatId":"$fan:1","text":"Take this"}`}}

// messageEffects are the effects on chats and messages. In the seed, chat 3 is pinned and 50 is muted; message 1 is the
// first one of chat 1 and comes from the fan. No seeded message shows the media 1 to 9.
var messageEffects = effects{
	"chats.markRead": {
		first: []step{{do: "!message", args: `{"user_id":$fan:1}`}},
		args:  chat1,
		see: []observation{
			shows("chats.get", chat1, "unreadCount", 0),
			shows("chats.list", `{"filter":"unread"}`, "items[id=$fan:1]", absent),
			shows("chats.getUnreadCounts", "{}", "chats", plus(-1)),
			emits("chatRead", "chatId", "$fan:1", "all", false),
		},
	},
	"chats.markUnread": {args: chat1, see: []observation{
		shows("chats.get", chat1, "unreadCount", 1),
		shows("chats.list", `{"filter":"unread"}`, "items[id=$fan:1]", present),
		shows("chats.getUnreadCounts", "{}", "chats", plus(1)),
		shows("me.getCounts", "{}", "chats", plus(1)),
	}},
	"chats.markAllRead": {
		first: []step{{do: "!message", args: `{"user_id":$fan:1}`}, {do: "chats.markUnread", args: `{"chatId":"$fan:2"}`}, {do: "chats.getUnreadCounts", args: "{}"}},
		args:  "{}",
		see: []observation{
			shows("chats.getUnreadCounts", "{}", "chats", 0),
			shows("chats.list", `{"filter":"unread"}`, "items.#", 0),
			shows("chats.get", chat1, "unreadCount", 0),
			shows("chats.get", `{"chatId":"$fan:2"}`, "unreadCount", 0),
			emits("chatRead", "all", true, "chatId", nil),
		},
	},
	"chats.mute": {args: chat1, see: []observation{
		shows("chats.get", chat1, "isMuted", true),
		shows("lists.listUsers", `{"listId":"$list:5"}`, "items[id=$fan:1]", present),
	}},
	"chats.unmute": {args: `{"chatId":"$fan:50"}`, see: []observation{
		shows("chats.get", `{"chatId":"$fan:50"}`, "isMuted", false),
		shows("lists.listUsers", `{"listId":"$list:5"}`, "items[id=$fan:50]", absent),
	}},
	"chats.pin": {args: chat1, see: []observation{
		shows("chats.get", chat1, "isPinned", true),
		shows("chats.list", `{"filter":"pinned"}`, "items[id=$fan:1]", present),
	}},
	"chats.unpin": {args: `{"chatId":"$fan:3"}`, see: []observation{
		shows("chats.get", `{"chatId":"$fan:3"}`, "isPinned", false),
		shows("chats.list", `{"filter":"pinned"}`, "items[id=$fan:3]", absent),
	}},
	"chats.hide": {args: chat1, see: []observation{
		shows("chats.get", chat1, "isHidden", true),
		shows("chats.list", `{"limit":100}`, "items[id=$fan:1]", absent),
	}},
	"chats.delete": {args: chat1, see: []observation{
		notFound("chats.get", chat1),
		notFound("messages.list", chat1),
		notFound("messages.get", `{"chatId":"$fan:1","messageId":"$message:1"}`),
		shows("chats.list", `{"limit":100}`, "items[id=$fan:1]", absent),
	}},
	"chats.startTyping": {args: chat1, unseen: "only the fan sees it, and it is not kept", see: []observation{returns("ok", true)}},

	"messages.send": {
		args: `{"chatId":"$fan:1","text":"Only here.","mediaIds":["$media:5","$media:6"],"previewMediaIds":["$media:5"],"priceCents":1250,"gifId":"2800000003","replyToId":"$message:1","releaseFormIds":["$form:1"]}`,
		see: []observation{
			shows("messages.get", `{"chatId":"$fan:1","messageId":"$.id"}`, "", theResult, "text", "Only here.", "priceCents", 1250, "isLocked", true, "isFree", false,
				"media.0.id", "$media:5", "media.1.id", "$media:6", "media.2.type", "gif", "media.#", 3, "replyToId", "$message:1", "fromUserId", "$me", "toUserId", "$fan:1"),
			shows("messages.list", `{"chatId":"$fan:1","limit":1}`, "items.0.id", "$.id"),
			shows("messages.search", `{"chatId":"$fan:1","query":"only here"}`, "items[id=$.id].text", "Only here."),
			shows("chats.get", chat1, "lastMessage.id", "$.id"),
			shows("chats.list", `{"limit":1}`, "items.0.lastMessage.id", "$.id"),
			shows("chats.listMedia", chat1, "items[id=$media:6]", present),
			shows("vault.listUsage", `{"mediaId":"$media:6"}`, "items[refId=$.id].kind", "message"),
			emits("messageSent", "message", theResult, "chatId", "$fan:1", "origin", "api"),
		},
	},
	"messages.send/to someone without a chat": {args: `{"chatId":"$fan:301","text":"Hello"}`, see: []observation{
		shows("chats.get", `{"chatId":"$fan:301"}`, "lastMessage.id", "$.id", "lastMessage.text", "Hello"),
		shows("chats.list", `{"limit":1}`, "items.0.id", "$fan:301"),
	}},
	"messages.send/brings a hidden chat back": {
		first: []step{{do: "chats.hide", args: chat1}}, args: `{"chatId":"$fan:1","text":"Hello again"}`,
		see: []observation{shows("chats.get", chat1, "isHidden", false), shows("chats.list", `{"limit":1}`, "items.0.id", "$fan:1")},
	},
	"messages.unsend": {first: written, args: `{"chatId":"$fan:1","messageId":"$1.id"}`, see: []observation{
		notFound("messages.get", `{"chatId":"$fan:1","messageId":"$1.id"}`),
		shows("messages.list", `{"chatId":"$fan:1"}`, "items[id=$1.id]", absent, "items.#", plus(-1)),
		shows("chats.get", chat1, "lastMessage.text", present, "lastMessage.id", present),
		emits("messageDeleted", "chatId", "$fan:1", "messageId", "$1.id", "by", "creator"),
	}},
	"messages.like": {
		first: []step{{do: "messages.unlike", args: `{"chatId":"$fan:1","messageId":"$message:1"}`}}, args: `{"chatId":"$fan:1","messageId":"$message:1"}`,
		see: []observation{
			shows("messages.get", `{"chatId":"$fan:1","messageId":"$message:1"}`, "isLiked", true),
			emits("messageLiked", "messageId", "$message:1", "user.id", "$me"),
		},
	},
	"messages.unlike": {
		first: []step{{do: "messages.like", args: `{"chatId":"$fan:1","messageId":"$message:1"}`}}, args: `{"chatId":"$fan:1","messageId":"$message:1"}`,
		see: []observation{
			shows("messages.get", `{"chatId":"$fan:1","messageId":"$message:1"}`, "isLiked", false),
			emits("messageUnliked", "messageId", "$message:1", "user.id", "$me"),
		},
	},
	"messages.pin": {args: `{"chatId":"$fan:1","messageId":"$message:1"}`, see: []observation{
		shows("messages.get", `{"chatId":"$fan:1","messageId":"$message:1"}`, "isPinned", true),
		shows("messages.list", chat1, "items[id=$message:1].isPinned", true),
	}},
	"messages.unpin": {
		first: []step{{do: "messages.pin", args: `{"chatId":"$fan:1","messageId":"$message:1"}`}}, args: `{"chatId":"$fan:1","messageId":"$message:1"}`,
		see: []observation{shows("messages.get", `{"chatId":"$fan:1","messageId":"$message:1"}`, "isPinned", false)},
	},
	"messages.tag": {
		args:   `{"messageId":"$message:2","releaseFormIds":["$form:1","$form:2"]}`,
		unseen: "the catalog's Message does not show its release forms", see: []observation{returns("ok", true)},
		inside: func(c *world.Creator, id func(string) int64) any {
			return c.Messages(id("$fan:1")).Get(id("$message:2")).Forms
		},
		want: []any{"$form:1", "$form:2"},
	},
}

var massSent = []step{{do: "massMessages.send", args: `{"text":"To both","userIds":["$fan:1","$fan:2"]}`}}

// massEffects are the effects on mass messages. In the seed, 25 and 26 are scheduled.
var massEffects = effects{
	"massMessages.send": {
		args: `{"text":"Outtakes","mediaIds":["$media:30"],"priceCents":1500,"userIds":["$fan:1","$fan:2","$fan:301"]}`,
		see: []observation{
			shows("massMessages.get", `{"massMessageId":"$.id"}`, "state", "sent", "text", "Outtakes", "priceCents", 1500, "sentCount", 3, "recipients", 3, "sentAt", present, "media.0.id", "$media:30"),
			shows("massMessages.list", `{"state":"sent"}`, "items[id=$.id].sentCount", 3),
			shows("massMessages.getStatistics", `{"massMessageId":"$.id"}`, "sentCount", 3, "purchasedCount", 0),
			shows("messages.list", chat1, "items[queueId=$.id].text", "Outtakes", "items[queueId=$.id].priceCents", 1500),
			shows("chats.get", `{"chatId":"$fan:301"}`, "lastMessage.queueId", "$.id"),
			emits("massMessageSent", "massMessage.id", "$.id", "massMessage.state", "sent"),
			emits("messageSent", "message.queueId", "$.id", "chatId", "$fan:1", "origin", "mass"),
		},
	},
	"massMessages.send/later": {args: `{"text":"In time","scheduledAt":"2035-01-01T18:00:00Z","excludeListIds":["$list:10"]}`, wait: noEvents, see: []observation{
		shows("massMessages.get", `{"massMessageId":"$.id"}`, "", theResult, "state", "scheduled", "scheduledAt", "2035-01-01T18:00:00.000Z", "excludeListIds", []string{"$list:10"}, "sentCount", 0),
		shows("massMessages.list", `{"state":"scheduled"}`, "items[id=$.id]", present),
		shows("queue.list", span, "items[refId=$.id].kind", "message", "items[refId=$.id].scheduledAt", "2035-01-01T18:00:00.000Z"),
		shows("me.getCounts", "{}", "queue", plus(1)),
	}},
	"massMessages.send/and taken back by itself": {
		args: `{"text":"For a second","userIds":["$fan:1"],"unsendAfterSec":1}`, wait: []string{"massMessageSent", "messageDeleted"},
		see: []observation{
			shows("massMessages.get", `{"massMessageId":"$.id"}`, "state", "canceled", "sentCount", 1),
			shows("messages.list", `{"chatId":"$fan:1"}`, "items[queueId=$.id]", still{absent}),
		},
	},
	"massMessages.update": {
		args: `{"massMessageId":"$mass:25","text":"A week later","mediaIds":["$media:31","$media:32"],"priceCents":700,"scheduledAt":"2035-01-01T18:00:00Z","includeListIds":["$list:8"],"excludeListIds":["$list:9"]}`,
		see: []observation{
			shows("massMessages.get", `{"massMessageId":"$mass:25"}`, "", theResult, "text", "A week later", "media.1.id", "$media:32", "priceCents", 700,
				"scheduledAt", "2035-01-01T18:00:00.000Z", "includeListIds", []string{"$list:8"}, "excludeListIds", []string{"$list:9"}),
			shows("queue.list", span, "items[refId=$mass:25].scheduledAt", "2035-01-01T18:00:00.000Z"),
		},
	},
	"massMessages.cancel": {args: `{"massMessageId":"$mass:26"}`, see: []observation{
		shows("massMessages.get", `{"massMessageId":"$mass:26"}`, "state", "canceled"),
		shows("massMessages.list", `{"state":"canceled"}`, "items[id=$mass:26]", present),
		shows("queue.list", span, "items[refId=$mass:26]", absent),
	}},
	"massMessages.unsend": {first: massSent, args: `{"massMessageId":"$1.id"}`, wait: []string{"messageDeleted"}, see: []observation{
		shows("massMessages.get", `{"massMessageId":"$1.id"}`, "state", "canceled"),
		shows("messages.list", chat1, "items[queueId=$1.id]", absent),
		shows("messages.list", `{"chatId":"$fan:2"}`, "items[queueId=$1.id]", absent),
		emits("messageDeleted", "chatId", "$fan:2", "by", "creator"),
	}},
}
