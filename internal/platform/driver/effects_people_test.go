package driver_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

const (
	fan1  = `{"userId":"$fan:1"}`
	chat1 = `{"chatId":"$fan:1"}`
	day   = 24 * time.Hour
)

// peopleEffects are the effects on me, users, fans and following. Of the seeded people, 1 subscribes and has a chat,
// 8 used to subscribe, 87 has a note, 34 has a discount, 122 is restricted, 1199 is blocked, 2003 and 2010 are
// followed, and 2041 is a creator who is not followed.
var peopleEffects = effects{
	"me.update": {
		args: `{"name":"Nova","bio":"New here.","location":"Nowhere","websiteUrl":"https://nova.example","avatarMediaId":"$media:12","coverMediaId":"$media:13"}`,
		see: []observation{
			shows("me.get", "{}", "", theResult, "name", "Nova", "bio", "New here.", "avatarUrl", "$origin/media/$media:12/thumb", "coverUrl", "$origin/media/$media:13/thumb"),
			shows("settings.get", "{}", "displayName", "Nova", "bio", "New here.", "location", "Nowhere", "websiteUrl", "https://nova.example"),
			shows("users.get", `{"userId":"$me"}`, "name", "Nova"),
			emits("profileUpdated", "changes", []string{"name", "bio", "location", "websiteUrl", "avatar", "cover"}),
		},
	},
	"users.block": {args: fan1, see: []observation{
		shows("users.get", fan1, "isBlocked", true),
		shows("users.listBlocked", "{}", "items[id=$fan:1].isBlocked", true),
		shows("chats.get", chat1, "canSend", false, "cannotSendReason", "blocked"),
		shows("massMessages.estimate", `{"userIds":["$fan:1","$fan:2"]}`, "recipients", 1),
	}, also: cannotBeMessaged},
	"users.unblock": {args: `{"userId":"$fan:1199"}`, see: []observation{
		shows("users.get", `{"userId":"$fan:1199"}`, "isBlocked", false),
		shows("users.listBlocked", "{}", "items[id=$fan:1199]", absent),
	}},
	"users.restrict": {args: fan1, see: []observation{
		shows("users.get", fan1, "isRestricted", true),
		shows("users.listRestricted", "{}", "items[id=$fan:1].isRestricted", true),
		shows("lists.get", `{"listId":"$list:6"}`, "usersCount", plus(1)),
	}},
	"users.unrestrict": {args: `{"userId":"$fan:122"}`, see: []observation{
		shows("users.get", `{"userId":"$fan:122"}`, "isRestricted", false),
		shows("users.listRestricted", "{}", "items[id=$fan:122]", absent),
	}},
	"users.follow": {args: `{"userId":"$fan:2041"}`, see: []observation{
		shows("following.get", `{"userId":"$fan:2041"}`, "", theResult, "status", "active", "autoRenew", true),
		shows("following.list", "{}", "items[user.id=$fan:2041].status", "active"),
		shows("lists.get", `{"listId":"$list:3"}`, "usersCount", plus(1)),
		shows("following.getHistory", `{"userId":"$fan:2041"}`, "items.#", 1),
	}},
	"users.unfollow": {args: `{"userId":"$fan:2010"}`, see: []observation{
		shows("following.get", `{"userId":"$fan:2010"}`, "status", "expired", "autoRenew", false),
		shows("following.list", "{}", "items[user.id=$fan:2010]", absent),
		shows("following.list", `{"status":"expired"}`, "items[user.id=$fan:2010].status", "expired"),
	}},
	"users.report": {
		args:   `{"userId":"$fan:1","reason":"spam","note":"The same link every day."}`,
		unseen: "a platform does not show who was reported", see: []observation{returns("reported", true)},
		inside: func(c *world.Creator, id func(string) int64) any { return c.People().Get(id("$fan:1")).Reported },
		want:   []string{"spam: The same link every day."},
	},
	"fans.setCustomName": {args: `{"userId":"$fan:1","name":"Iris from the tour"}`, see: []observation{
		shows("fans.get", fan1, "customName", "Iris from the tour"),
		shows("users.search", `{"query":"from the tour"}`, "items[id=$fan:1]", present),
		returns("customName", "Iris from the tour"),
	}},
	"fans.setNote": {args: `{"userId":"$fan:1","note":"Tips on Fridays."}`, see: []observation{
		shows("fans.getNote", fan1, "note", "Tips on Fridays.", "updatedAt", present),
		shows("fans.get", fan1, "note", "Tips on Fridays."),
	}},
	"fans.clearNote": {args: `{"userId":"$fan:87"}`, see: []observation{
		shows("fans.getNote", `{"userId":"$fan:87"}`, "note", nil, "updatedAt", nil),
		shows("fans.get", `{"userId":"$fan:87"}`, "note", nil),
	}},
	"fans.setDiscount": {args: `{"userId":"$fan:1","percent":25,"expiresAt":"2030-01-01T00:00:00Z"}`, see: []observation{
		shows("fans.get", fan1, "discountPercent", 25),
		returns("percent", 25, "expiresAt", "2030-01-01T00:00:00.000Z"),
	}, also: paysLess},
	"fans.removeDiscount": {args: `{"userId":"$fan:34"}`, see: []observation{
		shows("fans.get", `{"userId":"$fan:34"}`, "discountPercent", nil),
	}},
	"fans.addFreeDays": {args: `{"userId":"$fan:1","days":7}`, see: []observation{
		shows("fans.get", fan1, "", theResult, "expiresAt", later(7*day)),
		shows("fans.getSubscriptionHistory", fan1, "items.#", plus(1), "items.0.kind", "free", "items.0.priceCents", 0),
	}},
	"fans.addFreeDays/to one who has left": {args: `{"userId":"$fan:8","days":30}`, wait: []string{"resubscribed"}, see: []observation{
		shows("fans.get", `{"userId":"$fan:8"}`, "", theResult, "status", "active"),
		shows("lists.get", `{"listId":"$list:1"}`, "usersCount", plus(1)),
		shows("me.get", "{}", "fansCount", plus(1)),
		emits("resubscribed", "user.id", "$fan:8", "priceCents", 0),
	}},
	"following.setAutoRenew": {args: `{"userId":"$fan:2003","enabled":false}`, see: []observation{
		shows("following.get", `{"userId":"$fan:2003"}`, "", theResult, "autoRenew", false),
		shows("following.list", "{}", "items[user.id=$fan:2003].autoRenew", false),
	}},
	"following.setAutoRenew/on": {
		first: []step{{do: "following.setAutoRenew", args: `{"userId":"$fan:2003","enabled":false}`}},
		args:  `{"userId":"$fan:2003","enabled":true}`,
		see:   []observation{shows("following.get", `{"userId":"$fan:2003"}`, "autoRenew", true)},
	},
}

// cannotBeMessaged checks that a blocked fan cannot be sent a message.
func cannotBeMessaged(t *testing.T, s *effectFixture) {
	t.Helper()
	_, err := s.call(s.session, "messages.send", s.fill(`{"chatId":"$fan:1","text":"Hello"}`))
	wantRefusal(t, err, catalog.RefusedForbidden)
}

// paysLess checks that the next month costs a quarter less than $9.99.
func paysLess(t *testing.T, s *effectFixture) {
	t.Helper()
	if paid := at(s.trigger("subscriptionRenewed", s.fill(`{"user_id":$fan:1}`)), "priceCents"); fmt.Sprint(paid) != "749" {
		t.Errorf("the next month costs %v", paid)
	}
}

// twoOnAList creates a list with the fans 1 and 2, in this order.
var twoOnAList = []step{{do: "lists.create", args: `{"name":"Two"}`}, {do: "lists.addUsers", args: `{"listId":"$1.id","userIds":["$fan:1","$fan:2"]}`}}

var listEffects = effects{
	"lists.create": {args: `{"name":"Tour 2027"}`, see: []observation{
		shows("lists.list", "{}", "items[id=$.id].name", "Tour 2027"),
		shows("lists.get", `{"listId":"$.id"}`, "", theResult, "name", "Tour 2027", "kind", "custom", "usersCount", 0, "canEdit", true),
		emits("listUpdated", "list.id", "$.id", "list.name", "Tour 2027"),
	}},
	"lists.rename": {args: `{"listId":"$list:7","name":"Very important"}`, see: []observation{
		shows("lists.get", `{"listId":"$list:7"}`, "", theResult, "name", "Very important"),
		shows("lists.list", `{"query":"very imp"}`, "items[id=$list:7].name", "Very important"),
		emits("listUpdated", "list.name", "Very important"),
	}},
	"lists.delete": {first: twoOnAList, args: `{"listId":"$1.id"}`, see: []observation{
		notFound("lists.get", `{"listId":"$1.id"}`),
		shows("lists.list", "{}", "items[id=$1.id]", absent),
		shows("users.get", fan1, "listIds.#", plus(-1)),
		emits("listUpdated", "list.id", "$1.id", "removed", 2),
	}},
	"lists.clear": {first: twoOnAList, args: `{"listId":"$1.id"}`, see: []observation{
		shows("lists.get", `{"listId":"$1.id"}`, "usersCount", 0),
		shows("lists.listUsers", `{"listId":"$1.id"}`, "items.#", 0),
		returns("removed", 2),
		emits("listUpdated", "list.id", "$1.id", "removed", 2),
	}},
	"lists.addUsers": {
		first: []step{{do: "lists.create", args: `{"name":"Three"}`}, {do: "lists.addUsers", args: `{"listId":"$1.id","userIds":["$fan:1"]}`}},
		args:  `{"listId":"$1.id","userIds":["$fan:1","$fan:2","$fan:3"]}`,
		see: []observation{
			shows("lists.get", `{"listId":"$1.id"}`, "usersCount", 3),
			shows("lists.listUsers", `{"listId":"$1.id"}`, "items.#", 3, "items[id=$fan:2]", present, "items[id=$fan:3]", present),
			shows("users.get", `{"userId":"$fan:2"}`, "listIds.#", plus(1)),
			shows("massMessages.estimate", `{"includeListIds":["$1.id"]}`, "recipients", 3),
			returns("added", 2, "skipped", []string{"$fan:1"}),
			emits("listUpdated", "list.id", "$1.id", "added", 2),
		},
	},
	"lists.removeUsers": {first: twoOnAList, args: `{"listId":"$1.id","userIds":["$fan:1","$fan:3"]}`, see: []observation{
		shows("lists.get", `{"listId":"$1.id"}`, "usersCount", 1),
		shows("lists.listUsers", `{"listId":"$1.id"}`, "items.#", 1, "items[id=$fan:1]", absent),
		returns("removed", 1),
		emits("listUpdated", "list.id", "$1.id", "removed", 1),
	}},
	"lists.setForUser": {
		first: []step{{do: "lists.create", args: `{"name":"From"}`}, {do: "lists.addUsers", args: `{"listId":"$1.id","userIds":["$fan:5"]}`}, {do: "lists.create", args: `{"name":"To"}`}},
		args:  `{"userId":"$fan:5","addListIds":["$3.id"],"removeListIds":["$1.id"]}`,
		see: []observation{
			shows("lists.listUsers", `{"listId":"$3.id"}`, "items[id=$fan:5]", present),
			shows("users.get", `{"userId":"$fan:5"}`, "listIds", sameAs("listIds")),
			shows("lists.listUsers", `{"listId":"$1.id"}`, "items[id=$fan:5]", absent),
			emits("listUpdated", "list.id", "$3.id", "added", 1),
			emits("listUpdated", "list.id", "$1.id", "removed", 1),
		},
	},
	// The user who was added last is first, unless someone is pinned.
	"lists.pinUser": {first: twoOnAList, args: `{"listId":"$1.id","userId":"$fan:1"}`, see: []observation{
		shows("lists.listUsers", `{"listId":"$1.id"}`, "items.0.id", "$fan:1", "items.1.id", "$fan:2"),
	}},
	"lists.unpinUser": {
		first: append([]step{}, twoOnAList[0], twoOnAList[1], step{do: "lists.pinUser", args: `{"listId":"$1.id","userId":"$fan:1"}`}),
		args:  `{"listId":"$1.id","userId":"$fan:1"}`,
		see:   []observation{shows("lists.listUsers", `{"listId":"$1.id"}`, "items.0.id", "$fan:2", "items.1.id", "$fan:1")},
	},
	// A user who was removed from a list and added again is no longer pinned.
	"lists.setForUser/takes the pin as well": {
		first: append([]step{}, twoOnAList[0], twoOnAList[1], step{do: "lists.pinUser", args: `{"listId":"$1.id","userId":"$fan:1"}`},
			step{do: "lists.setForUser", args: `{"userId":"$fan:1","removeListIds":["$1.id"]}`}, step{do: "lists.addUsers", args: `{"listId":"$1.id","userIds":["$fan:1"]}`}),
		args: `{"userId":"$fan:3","addListIds":["$1.id"]}`,
		see:  []observation{shows("lists.listUsers", `{"listId":"$1.id"}`, "items.0.id", "$fan:3", "items.#", 3)},
	},
}
