package driver_test

import "github.com/stagedoor/stagedoor/sandbox/world"

// span has everything that is scheduled.
const span = `{"from":"2026-01-01","to":"2036-12-31"}`

// written is a new message of the creator's.
var written = []step{{do: "messages.send", args: `{"chatId":"$fan:1","text":"Take this"}`}}

// talkEffects are those of chats and messages. Chat 3 is pinned, 50 is muted; message 1 is the first one of chat 1, and the fan's. No
// seeded message shows the media 1 to 9.
var talkEffects = effects{
	"chats.markRead": {
		first: []step{{do: "!message", args: `{"user_id":$fan:1}`}},
		args:  chat1,
		see: []sight{
			sees("chats.get", chat1, "unreadCount", 0),
			sees("chats.list", `{"filter":"unread"}`, "items[id=$fan:1]", absent),
			sees("chats.getUnreadCounts", "{}", "chats", plus(-1)),
			tells("chatRead", "chatId", "$fan:1", "all", false),
		},
	},
	"chats.markUnread": {args: chat1, see: []sight{
		sees("chats.get", chat1, "unreadCount", 1),
		sees("chats.list", `{"filter":"unread"}`, "items[id=$fan:1]", some),
		sees("chats.getUnreadCounts", "{}", "chats", plus(1)),
		sees("me.getCounts", "{}", "chats", plus(1)),
	}},
	"chats.markAllRead": {
		first: []step{{do: "!message", args: `{"user_id":$fan:1}`}, {do: "chats.markUnread", args: `{"chatId":"$fan:2"}`}, {do: "chats.getUnreadCounts", args: "{}"}},
		args:  "{}",
		see: []sight{
			sees("chats.getUnreadCounts", "{}", "chats", 0),
			sees("chats.list", `{"filter":"unread"}`, "items.#", 0),
			sees("chats.get", chat1, "unreadCount", 0),
			sees("chats.get", `{"chatId":"$fan:2"}`, "unreadCount", 0),
			tells("chatRead", "all", true, "chatId", nil),
		},
	},
	"chats.mute": {args: chat1, see: []sight{
		sees("chats.get", chat1, "isMuted", true),
		sees("lists.listUsers", `{"listId":"$list:5"}`, "items[id=$fan:1]", some),
	}},
	"chats.unmute": {args: `{"chatId":"$fan:50"}`, see: []sight{
		sees("chats.get", `{"chatId":"$fan:50"}`, "isMuted", false),
		sees("lists.listUsers", `{"listId":"$list:5"}`, "items[id=$fan:50]", absent),
	}},
	"chats.pin": {args: chat1, see: []sight{
		sees("chats.get", chat1, "isPinned", true),
		sees("chats.list", `{"filter":"pinned"}`, "items[id=$fan:1]", some),
	}},
	"chats.unpin": {args: `{"chatId":"$fan:3"}`, see: []sight{
		sees("chats.get", `{"chatId":"$fan:3"}`, "isPinned", false),
		sees("chats.list", `{"filter":"pinned"}`, "items[id=$fan:3]", absent),
	}},
	"chats.hide": {args: chat1, see: []sight{
		sees("chats.get", chat1, "isHidden", true),
		sees("chats.list", `{"limit":100}`, "items[id=$fan:1]", absent),
	}},
	"chats.delete": {args: chat1, see: []sight{
		gone("chats.get", chat1),
		gone("messages.list", chat1),
		gone("messages.get", `{"chatId":"$fan:1","messageId":"$message:1"}`),
		sees("chats.list", `{"limit":100}`, "items[id=$fan:1]", absent),
	}},
	"chats.startTyping": {args: chat1, unseen: "only the fan sees it, and it is not kept", see: []sight{answers("ok", true)}},

	"messages.send": {
		args: `{"chatId":"$fan:1","text":"Only here.","mediaIds":["$media:5","$media:6"],"previewMediaIds":["$media:5"],"priceCents":1250,"gifId":"2800000003","replyToId":"$message:1","releaseFormIds":["$form:1"]}`,
		see: []sight{
			sees("messages.get", `{"chatId":"$fan:1","messageId":"$.id"}`, "", theAnswer, "text", "Only here.", "priceCents", 1250, "isLocked", true, "isFree", false,
				"media.0.id", "$media:5", "media.1.id", "$media:6", "media.2.type", "gif", "media.#", 3, "replyToId", "$message:1", "fromUserId", "$me", "toUserId", "$fan:1"),
			sees("messages.list", `{"chatId":"$fan:1","limit":1}`, "items.0.id", "$.id"),
			sees("messages.search", `{"chatId":"$fan:1","query":"only here"}`, "items[id=$.id].text", "Only here."),
			sees("chats.get", chat1, "lastMessage.id", "$.id"),
			sees("chats.list", `{"limit":1}`, "items.0.lastMessage.id", "$.id"),
			sees("chats.listMedia", chat1, "items[id=$media:6]", some),
			sees("vault.listUsage", `{"mediaId":"$media:6"}`, "items[refId=$.id].kind", "message"),
			tells("messageSent", "message", theAnswer, "chatId", "$fan:1", "origin", "api"),
		},
	},
	"messages.send/to someone without a chat": {args: `{"chatId":"$fan:301","text":"Hello"}`, see: []sight{
		sees("chats.get", `{"chatId":"$fan:301"}`, "lastMessage.id", "$.id", "lastMessage.text", "Hello"),
		sees("chats.list", `{"limit":1}`, "items.0.id", "$fan:301"),
	}},
	"messages.send/brings a hidden chat back": {
		first: []step{{do: "chats.hide", args: chat1}}, args: `{"chatId":"$fan:1","text":"Hello again"}`,
		see: []sight{sees("chats.get", chat1, "isHidden", false), sees("chats.list", `{"limit":1}`, "items.0.id", "$fan:1")},
	},
	"messages.unsend": {first: written, args: `{"chatId":"$fan:1","messageId":"$1.id"}`, see: []sight{
		gone("messages.get", `{"chatId":"$fan:1","messageId":"$1.id"}`),
		sees("messages.list", `{"chatId":"$fan:1"}`, "items[id=$1.id]", absent, "items.#", plus(-1)),
		sees("chats.get", chat1, "lastMessage.text", some, "lastMessage.id", some),
		tells("messageDeleted", "chatId", "$fan:1", "messageId", "$1.id", "by", "creator"),
	}},
	"messages.like": {
		first: []step{{do: "messages.unlike", args: `{"chatId":"$fan:1","messageId":"$message:1"}`}}, args: `{"chatId":"$fan:1","messageId":"$message:1"}`,
		see: []sight{
			sees("messages.get", `{"chatId":"$fan:1","messageId":"$message:1"}`, "isLiked", true),
			tells("messageLiked", "messageId", "$message:1", "user.id", "$me"),
		},
	},
	"messages.unlike": {
		first: []step{{do: "messages.like", args: `{"chatId":"$fan:1","messageId":"$message:1"}`}}, args: `{"chatId":"$fan:1","messageId":"$message:1"}`,
		see: []sight{
			sees("messages.get", `{"chatId":"$fan:1","messageId":"$message:1"}`, "isLiked", false),
			tells("messageUnliked", "messageId", "$message:1", "user.id", "$me"),
		},
	},
	"messages.pin": {args: `{"chatId":"$fan:1","messageId":"$message:1"}`, see: []sight{
		sees("messages.get", `{"chatId":"$fan:1","messageId":"$message:1"}`, "isPinned", true),
		sees("messages.list", chat1, "items[id=$message:1].isPinned", true),
	}},
	"messages.unpin": {
		first: []step{{do: "messages.pin", args: `{"chatId":"$fan:1","messageId":"$message:1"}`}}, args: `{"chatId":"$fan:1","messageId":"$message:1"}`,
		see: []sight{sees("messages.get", `{"chatId":"$fan:1","messageId":"$message:1"}`, "isPinned", false)},
	},
	"messages.tag": {
		args:   `{"messageId":"$message:2","releaseFormIds":["$form:1","$form:2"]}`,
		unseen: "the catalog's Message does not show its release forms", see: []sight{answers("ok", true)},
		inside: func(c *world.Creator, id func(string) int64) any {
			return c.Messages(id("$fan:1")).Get(id("$message:2")).Forms
		},
		want: []any{"$form:1", "$form:2"},
	},
}

// massSent is a message that two fans got.
var massSent = []step{{do: "massMessages.send", args: `{"text":"To both","userIds":["$fan:1","$fan:2"]}`}}

// massEffects: of the seeded ones, 25 and 26 wait for their time.
var massEffects = effects{
	"massMessages.send": {
		args: `{"text":"Outtakes","mediaIds":["$media:30"],"priceCents":1500,"userIds":["$fan:1","$fan:2","$fan:301"]}`,
		see: []sight{
			sees("massMessages.get", `{"massMessageId":"$.id"}`, "state", "sent", "text", "Outtakes", "priceCents", 1500, "sentCount", 3, "recipients", 3, "sentAt", some, "media.0.id", "$media:30"),
			sees("massMessages.list", `{"state":"sent"}`, "items[id=$.id].sentCount", 3),
			sees("massMessages.getStatistics", `{"massMessageId":"$.id"}`, "sentCount", 3, "purchasedCount", 0),
			sees("messages.list", chat1, "items[queueId=$.id].text", "Outtakes", "items[queueId=$.id].priceCents", 1500),
			sees("chats.get", `{"chatId":"$fan:301"}`, "lastMessage.queueId", "$.id"),
			tells("massMessageSent", "massMessage.id", "$.id", "massMessage.state", "sent"),
			tells("messageSent", "message.queueId", "$.id", "chatId", "$fan:1", "origin", "mass"),
		},
	},
	"massMessages.send/later": {args: `{"text":"In time","scheduledAt":"2035-01-01T18:00:00Z","excludeListIds":["$list:10"]}`, wait: none, see: []sight{
		sees("massMessages.get", `{"massMessageId":"$.id"}`, "", theAnswer, "state", "scheduled", "scheduledAt", "2035-01-01T18:00:00.000Z", "excludeListIds", []string{"$list:10"}, "sentCount", 0),
		sees("massMessages.list", `{"state":"scheduled"}`, "items[id=$.id]", some),
		sees("queue.list", span, "items[refId=$.id].kind", "message", "items[refId=$.id].scheduledAt", "2035-01-01T18:00:00.000Z"),
		sees("me.getCounts", "{}", "queue", plus(1)),
	}},
	"massMessages.send/and taken back by itself": {
		args: `{"text":"For a second","userIds":["$fan:1"],"unsendAfterSec":1}`, wait: []string{"massMessageSent", "messageDeleted"},
		see: []sight{
			sees("massMessages.get", `{"massMessageId":"$.id"}`, "state", "canceled", "sentCount", 1),
			sees("messages.list", `{"chatId":"$fan:1"}`, "items[queueId=$.id]", still{absent}),
		},
	},
	"massMessages.update": {
		args: `{"massMessageId":"$mass:25","text":"A week later","mediaIds":["$media:31","$media:32"],"priceCents":700,"scheduledAt":"2035-01-01T18:00:00Z","includeListIds":["$list:8"],"excludeListIds":["$list:9"]}`,
		see: []sight{
			sees("massMessages.get", `{"massMessageId":"$mass:25"}`, "", theAnswer, "text", "A week later", "media.1.id", "$media:32", "priceCents", 700,
				"scheduledAt", "2035-01-01T18:00:00.000Z", "includeListIds", []string{"$list:8"}, "excludeListIds", []string{"$list:9"}),
			sees("queue.list", span, "items[refId=$mass:25].scheduledAt", "2035-01-01T18:00:00.000Z"),
		},
	},
	"massMessages.cancel": {args: `{"massMessageId":"$mass:26"}`, see: []sight{
		sees("massMessages.get", `{"massMessageId":"$mass:26"}`, "state", "canceled"),
		sees("massMessages.list", `{"state":"canceled"}`, "items[id=$mass:26]", some),
		sees("queue.list", span, "items[refId=$mass:26]", absent),
	}},
	"massMessages.unsend": {first: massSent, args: `{"massMessageId":"$1.id"}`, wait: []string{"messageDeleted"}, see: []sight{
		sees("massMessages.get", `{"massMessageId":"$1.id"}`, "state", "canceled"),
		sees("messages.list", chat1, "items[queueId=$1.id]", absent),
		sees("messages.list", `{"chatId":"$fan:2"}`, "items[queueId=$1.id]", absent),
		tells("messageDeleted", "chatId", "$fan:2", "by", "creator"),
	}},
}
