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

// peopleEffects are those of me, users, fans and following. Of the seeded people, 1 subscribes and has a chat, 8 did subscribe, 87 has
// a note and 34 a discount, 122 is restricted, 1199 is blocked, 2003 and 2010 are followed, 2041 is a creator who is not.
var peopleEffects = effects{
	"me.update": {
		args: `{"name":"Nova","bio":"New here.","location":"Nowhere","websiteUrl":"https://nova.example","avatarMediaId":"$media:12","coverMediaId":"$media:13"}`,
		see: []sight{
			sees("me.get", "{}", "", theAnswer, "name", "Nova", "bio", "New here.", "avatarUrl", "$origin/media/$media:12/thumb", "coverUrl", "$origin/media/$media:13/thumb"),
			sees("settings.get", "{}", "displayName", "Nova", "bio", "New here.", "location", "Nowhere", "websiteUrl", "https://nova.example"),
			sees("users.get", `{"userId":"$me"}`, "name", "Nova"),
			tells("profileUpdated", "changes", []string{"name", "bio", "location", "websiteUrl", "avatar", "cover"}),
		},
	},
	"users.block": {args: fan1, see: []sight{
		sees("users.get", fan1, "isBlocked", true),
		sees("users.listBlocked", "{}", "items[id=$fan:1].isBlocked", true),
		sees("chats.get", chat1, "canSend", false, "cannotSendReason", "blocked"),
		sees("massMessages.estimate", `{"userIds":["$fan:1","$fan:2"]}`, "recipients", 1),
	}, also: cannotBeWrittenTo},
	"users.unblock": {args: `{"userId":"$fan:1199"}`, see: []sight{
		sees("users.get", `{"userId":"$fan:1199"}`, "isBlocked", false),
		sees("users.listBlocked", "{}", "items[id=$fan:1199]", absent),
	}},
	"users.restrict": {args: fan1, see: []sight{
		sees("users.get", fan1, "isRestricted", true),
		sees("users.listRestricted", "{}", "items[id=$fan:1].isRestricted", true),
		sees("lists.get", `{"listId":"$list:6"}`, "usersCount", plus(1)),
	}},
	"users.unrestrict": {args: `{"userId":"$fan:122"}`, see: []sight{
		sees("users.get", `{"userId":"$fan:122"}`, "isRestricted", false),
		sees("users.listRestricted", "{}", "items[id=$fan:122]", absent),
	}},
	"users.follow": {args: `{"userId":"$fan:2041"}`, see: []sight{
		sees("following.get", `{"userId":"$fan:2041"}`, "", theAnswer, "status", "active", "autoRenew", true),
		sees("following.list", "{}", "items[user.id=$fan:2041].status", "active"),
		sees("lists.get", `{"listId":"$list:3"}`, "usersCount", plus(1)),
		sees("following.getHistory", `{"userId":"$fan:2041"}`, "items.#", 1),
	}},
	"users.unfollow": {args: `{"userId":"$fan:2010"}`, see: []sight{
		sees("following.get", `{"userId":"$fan:2010"}`, "status", "expired", "autoRenew", false),
		sees("following.list", "{}", "items[user.id=$fan:2010]", absent),
		sees("following.list", `{"status":"expired"}`, "items[user.id=$fan:2010].status", "expired"),
	}},
	"users.report": {
		args:   `{"userId":"$fan:1","reason":"spam","note":"The same link every day."}`,
		unseen: "a platform does not show who was reported", see: []sight{answers("reported", true)},
		inside: func(c *world.Creator, id func(string) int64) any { return c.People().Get(id("$fan:1")).Reported },
		want:   []string{"spam: The same link every day."},
	},
	"fans.setCustomName": {args: `{"userId":"$fan:1","name":"Iris from the tour"}`, see: []sight{
		sees("fans.get", fan1, "customName", "Iris from the tour"),
		sees("users.search", `{"query":"from the tour"}`, "items[id=$fan:1]", some),
		answers("customName", "Iris from the tour"),
	}},
	"fans.setNote": {args: `{"userId":"$fan:1","note":"Tips on Fridays."}`, see: []sight{
		sees("fans.getNote", fan1, "note", "Tips on Fridays.", "updatedAt", some),
		sees("fans.get", fan1, "note", "Tips on Fridays."),
	}},
	"fans.clearNote": {args: `{"userId":"$fan:87"}`, see: []sight{
		sees("fans.getNote", `{"userId":"$fan:87"}`, "note", nil, "updatedAt", nil),
		sees("fans.get", `{"userId":"$fan:87"}`, "note", nil),
	}},
	"fans.setDiscount": {args: `{"userId":"$fan:1","percent":25,"expiresAt":"2030-01-01T00:00:00Z"}`, see: []sight{
		sees("fans.get", fan1, "discountPercent", 25),
		answers("percent", 25, "expiresAt", "2030-01-01T00:00:00.000Z"),
	}, also: paysLess},
	"fans.removeDiscount": {args: `{"userId":"$fan:34"}`, see: []sight{
		sees("fans.get", `{"userId":"$fan:34"}`, "discountPercent", nil),
	}},
	"fans.addFreeDays": {args: `{"userId":"$fan:1","days":7}`, see: []sight{
		sees("fans.get", fan1, "", theAnswer, "expiresAt", later(7*day)),
		sees("fans.getSubscriptionHistory", fan1, "items.#", plus(1), "items.0.kind", "free", "items.0.priceCents", 0),
	}},
	"fans.addFreeDays/to one who has left": {args: `{"userId":"$fan:8","days":30}`, wait: []string{"resubscribed"}, see: []sight{
		sees("fans.get", `{"userId":"$fan:8"}`, "", theAnswer, "status", "active"),
		sees("lists.get", `{"listId":"$list:1"}`, "usersCount", plus(1)),
		sees("me.get", "{}", "fansCount", plus(1)),
		tells("resubscribed", "user.id", "$fan:8", "priceCents", 0),
	}},
	"following.setAutoRenew": {args: `{"userId":"$fan:2003","enabled":false}`, see: []sight{
		sees("following.get", `{"userId":"$fan:2003"}`, "", theAnswer, "autoRenew", false),
		sees("following.list", "{}", "items[user.id=$fan:2003].autoRenew", false),
	}},
	"following.setAutoRenew/on": {
		first: []step{{do: "following.setAutoRenew", args: `{"userId":"$fan:2003","enabled":false}`}},
		args:  `{"userId":"$fan:2003","enabled":true}`,
		see:   []sight{sees("following.get", `{"userId":"$fan:2003"}`, "autoRenew", true)},
	},
}

// cannotBeWrittenTo: a fan who was blocked is out of reach.
func cannotBeWrittenTo(t *testing.T, s *stage) {
	t.Helper()
	_, err := s.call(s.session, "messages.send", s.fill(`{"chatId":"$fan:1","text":"Hello"}`))
	refusedAs(t, err, catalog.RefusedForbidden)
}

// paysLess: a quarter off the month of $9.99.
func paysLess(t *testing.T, s *stage) {
	t.Helper()
	if paid := at(s.order("subscriptionRenewed", s.fill(`{"user_id":$fan:1}`)), "priceCents"); fmt.Sprint(paid) != "749" {
		t.Errorf("the next month costs %v", paid)
	}
}

// twoOnAList is a new list with 1 and then 2 on it.
var twoOnAList = []step{{do: "lists.create", args: `{"name":"Two"}`}, {do: "lists.addUsers", args: `{"listId":"$1.id","userIds":["$fan:1","$fan:2"]}`}}

var listEffects = effects{
	"lists.create": {args: `{"name":"Tour 2027"}`, see: []sight{
		sees("lists.list", "{}", "items[id=$.id].name", "Tour 2027"),
		sees("lists.get", `{"listId":"$.id"}`, "", theAnswer, "name", "Tour 2027", "kind", "custom", "usersCount", 0, "canEdit", true),
		tells("listUpdated", "list.id", "$.id", "list.name", "Tour 2027"),
	}},
	"lists.rename": {args: `{"listId":"$list:7","name":"Very important"}`, see: []sight{
		sees("lists.get", `{"listId":"$list:7"}`, "", theAnswer, "name", "Very important"),
		sees("lists.list", `{"query":"very imp"}`, "items[id=$list:7].name", "Very important"),
		tells("listUpdated", "list.name", "Very important"),
	}},
	"lists.delete": {first: twoOnAList, args: `{"listId":"$1.id"}`, see: []sight{
		gone("lists.get", `{"listId":"$1.id"}`),
		sees("lists.list", "{}", "items[id=$1.id]", absent),
		sees("users.get", fan1, "listIds.#", plus(-1)),
		tells("listUpdated", "list.id", "$1.id", "removed", 2),
	}},
	"lists.clear": {first: twoOnAList, args: `{"listId":"$1.id"}`, see: []sight{
		sees("lists.get", `{"listId":"$1.id"}`, "usersCount", 0),
		sees("lists.listUsers", `{"listId":"$1.id"}`, "items.#", 0),
		answers("removed", 2),
		tells("listUpdated", "list.id", "$1.id", "removed", 2),
	}},
	"lists.addUsers": {
		first: []step{{do: "lists.create", args: `{"name":"Three"}`}, {do: "lists.addUsers", args: `{"listId":"$1.id","userIds":["$fan:1"]}`}},
		args:  `{"listId":"$1.id","userIds":["$fan:1","$fan:2","$fan:3"]}`,
		see: []sight{
			sees("lists.get", `{"listId":"$1.id"}`, "usersCount", 3),
			sees("lists.listUsers", `{"listId":"$1.id"}`, "items.#", 3, "items[id=$fan:2]", some, "items[id=$fan:3]", some),
			sees("users.get", `{"userId":"$fan:2"}`, "listIds.#", plus(1)),
			sees("massMessages.estimate", `{"includeListIds":["$1.id"]}`, "recipients", 3),
			answers("added", 2, "skipped", []string{"$fan:1"}),
			tells("listUpdated", "list.id", "$1.id", "added", 2),
		},
	},
	"lists.removeUsers": {first: twoOnAList, args: `{"listId":"$1.id","userIds":["$fan:1","$fan:3"]}`, see: []sight{
		sees("lists.get", `{"listId":"$1.id"}`, "usersCount", 1),
		sees("lists.listUsers", `{"listId":"$1.id"}`, "items.#", 1, "items[id=$fan:1]", absent),
		answers("removed", 1),
		tells("listUpdated", "list.id", "$1.id", "removed", 1),
	}},
	"lists.setForUser": {
		first: []step{{do: "lists.create", args: `{"name":"From"}`}, {do: "lists.addUsers", args: `{"listId":"$1.id","userIds":["$fan:5"]}`}, {do: "lists.create", args: `{"name":"To"}`}},
		args:  `{"userId":"$fan:5","addListIds":["$3.id"],"removeListIds":["$1.id"]}`,
		see: []sight{
			sees("lists.listUsers", `{"listId":"$3.id"}`, "items[id=$fan:5]", some),
			sees("users.get", `{"userId":"$fan:5"}`, "listIds", same("listIds")),
			sees("lists.listUsers", `{"listId":"$1.id"}`, "items[id=$fan:5]", absent),
			tells("listUpdated", "list.id", "$3.id", "added", 1),
			tells("listUpdated", "list.id", "$1.id", "removed", 1),
		},
	},
	// The one who was added last is first, unless someone is pinned.
	"lists.pinUser": {first: twoOnAList, args: `{"listId":"$1.id","userId":"$fan:1"}`, see: []sight{
		sees("lists.listUsers", `{"listId":"$1.id"}`, "items.0.id", "$fan:1", "items.1.id", "$fan:2"),
	}},
	"lists.unpinUser": {
		first: append([]step{}, twoOnAList[0], twoOnAList[1], step{do: "lists.pinUser", args: `{"listId":"$1.id","userId":"$fan:1"}`}),
		args:  `{"listId":"$1.id","userId":"$fan:1"}`,
		see:   []sight{sees("lists.listUsers", `{"listId":"$1.id"}`, "items.0.id", "$fan:2", "items.1.id", "$fan:1")},
	},
	// Who was taken off a list and comes back is not pinned any more.
	"lists.setForUser/takes the pin as well": {
		first: append([]step{}, twoOnAList[0], twoOnAList[1], step{do: "lists.pinUser", args: `{"listId":"$1.id","userId":"$fan:1"}`},
			step{do: "lists.setForUser", args: `{"userId":"$fan:1","removeListIds":["$1.id"]}`}, step{do: "lists.addUsers", args: `{"listId":"$1.id","userIds":["$fan:1"]}`}),
		args: `{"userId":"$fan:3","addListIds":["$1.id"]}`,
		see:  []sight{sees("lists.listUsers", `{"listId":"$1.id"}`, "items.0.id", "$fan:3", "items.#", 3)},
	},
}
