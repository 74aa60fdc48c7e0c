package driver_test

import (
	"fmt"
	"testing"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

const (
	tracking1  = `{"linkId":"$tracking:1"}`
	trial1     = `{"linkId":"$trial:1"}`
	promotion2 = `{"promotionId":"$promotion:2"}`
	bundle1    = `{"bundleId":"$bundle:1"}`
	sharedWith = `"userId":"$fan:2001"}`
)

// withWhom looks whom a link is shared with.
func withWhom(links func(*world.Creator) *world.Table[row.Link, *row.Link], link string) func(*world.Creator, func(string) int64) any {
	return func(c *world.Creator, id func(string) int64) any { return links(c).Get(id(link)).Shared }
}

// noShares is why nothing shows it.
const noShares = "the catalog's links do not show whom they are shared with"

// moneyEffects are those of links, promotions, bundles and payouts. Tracking links are 0 to 5 (4 has ended), trial links 0 to 3 (2 has
// ended), promotions 0 to 2 (1 has ended), bundles 1 and 2.
var moneyEffects = effects{
	"trackingLinks.create": {args: `{"name":"Spring tour","tags":["tour","print"]}`, see: []sight{
		sees("trackingLinks.list", "{}", "items[id=$.id].name", "Spring tour"),
		sees("trackingLinks.get", `{"linkId":"$.id"}`, "", theAnswer, "tags", []string{"tour", "print"}, "clicks", 0, "endedAt", nil),
		sees("trackingLinks.getStats", `{"linkId":"$.id"}`, "subscribers", 0),
	}},
	"trackingLinks.update": {args: `{"linkId":"$tracking:1","name":"Forum","tags":["talk"]}`, see: []sight{
		sees("trackingLinks.get", tracking1, "", theAnswer, "name", "Forum", "tags", []string{"talk"}),
		sees("trackingLinks.list", `{"query":"forum"}`, "items[id=$tracking:1]", some),
	}},
	"trackingLinks.delete": {args: tracking1, see: []sight{
		gone("trackingLinks.get", tracking1),
		sees("trackingLinks.list", `{"state":"all"}`, "items[id=$tracking:1]", absent),
	}},
	"trackingLinks.share": {
		args: `{"linkId":"$tracking:1",` + sharedWith, unseen: noShares, see: []sight{answers("shared", true)},
		inside: withWhom((*world.Creator).TrackingLinks, "$tracking:1"), want: []string{"$fan:2001"},
	},
	"trackingLinks.unshare": {
		first: []step{{do: "trackingLinks.share", args: `{"linkId":"$tracking:1",` + sharedWith}},
		args:  `{"linkId":"$tracking:1",` + sharedWith, unseen: noShares, see: []sight{answers("shared", false)},
		inside: withWhom((*world.Creator).TrackingLinks, "$tracking:1"), want: []string{},
	},
	"trialLinks.create": {args: `{"name":"For readers","durationDays":7,"maxClaims":100,"expiresAt":"2031-05-01T20:00:00Z","tags":["mail"]}`, see: []sight{
		sees("trialLinks.list", "{}", "items[id=$.id].name", "For readers"),
		sees("trialLinks.get", `{"linkId":"$.id"}`, "", theAnswer, "durationDays", 7, "maxClaims", 100, "claims", 0, "expiresAt", "2031-05-01T20:00:00.000Z", "tags", []string{"mail"}),
	}},
	"trialLinks.update": {args: `{"linkId":"$trial:1","name":"Friends","tags":["friends"]}`, see: []sight{
		sees("trialLinks.get", trial1, "", theAnswer, "name", "Friends", "tags", []string{"friends"}),
	}},
	"trialLinks.end": {args: trial1, see: []sight{
		sees("trialLinks.get", trial1, "", theAnswer, "endedAt", some),
		sees("trialLinks.list", `{"state":"active"}`, "items[id=$trial:1]", absent),
		sees("trialLinks.list", `{"state":"ended"}`, "items[id=$trial:1]", some),
	}},
	"trialLinks.delete": {args: trial1, see: []sight{
		gone("trialLinks.get", trial1),
		sees("trialLinks.list", `{"state":"all"}`, "items[id=$trial:1]", absent),
	}},
	"trialLinks.share": {
		args: `{"linkId":"$trial:1",` + sharedWith, unseen: noShares, see: []sight{answers("shared", true)},
		inside: withWhom((*world.Creator).TrialLinks, "$trial:1"), want: []string{"$fan:2001"},
	},
	"trialLinks.unshare": {
		first: []step{{do: "trialLinks.share", args: `{"linkId":"$trial:1",` + sharedWith}},
		args:  `{"linkId":"$trial:1",` + sharedWith, unseen: noShares, see: []sight{answers("shared", false)},
		inside: withWhom((*world.Creator).TrialLinks, "$trial:1"), want: []string{},
	},

	"promotions.create": {args: `{"audience":"expired","kind":"discount","percent":40,"maxClaims":20,"expiresInDays":14,"message":"Come back"}`, see: []sight{
		sees("promotions.get", `{"promotionId":"$.id"}`, "", theAnswer, "audience", "expired", "kind", "discount", "percent", 40, "maxClaims", 20, "message", "Come back", "state", "active", "endsAt", some),
		sees("promotions.list", `{"state":"active"}`, "items[id=$.id].percent", 40),
	}},
	"promotions.update": {args: `{"promotionId":"$promotion:2","message":"Last days","maxClaims":777,"expiresInDays":3}`, see: []sight{
		sees("promotions.get", promotion2, "message", "Last days", "maxClaims", 777, "endsAt", some, "", theAnswer),
	}},
	"promotions.stop": {args: promotion2, see: []sight{
		sees("promotions.get", promotion2, "", theAnswer, "state", "ended", "endsAt", some),
		sees("promotions.list", `{"state":"active"}`, "items[id=$promotion:2]", absent),
		sees("promotions.list", `{"state":"ended"}`, "items[id=$promotion:2]", some),
	}},
	"promotions.delete": {args: promotion2, see: []sight{
		gone("promotions.get", promotion2),
		sees("promotions.list", "{}", "items[id=$promotion:2]", absent),
	}},
	// A month costs $9.99.
	"bundles.create": {args: `{"months":12,"percent":30}`, see: []sight{
		sees("bundles.list", "{}", "items[id=$.id].months", 12),
		sees("bundles.get", `{"bundleId":"$.id"}`, "", theAnswer, "percent", 30, "priceCents", 999*12*70/100),
	}},
	"bundles.update": {args: `{"bundleId":"$bundle:1","percent":15}`, see: []sight{
		sees("bundles.get", bundle1, "", theAnswer, "percent", 15, "priceCents", 999*3*85/100),
	}},
	"bundles.delete": {args: bundle1, see: []sight{
		gone("bundles.get", bundle1),
		sees("bundles.list", "{}", "items[id=$bundle:1]", absent),
	}},

	"payouts.setSchedule": {args: `{"frequency":"monthly"}`, see: []sight{
		sees("payouts.getSchedule", "{}", "", theAnswer, "frequency", "monthly", "nextPayoutAt", some),
		sees("settings.get", "{}", "payoutFrequency", "monthly"),
	}},
	"payouts.request": {args: `{"amountCents":5000}`, see: []sight{
		sees("earnings.getBalance", "{}", "availableCents", plus(-5000)),
		sees("payouts.list", "{}", "items[id=$.id].amountCents", 5000, "items[id=$.id].status", "pending"),
		sees("payouts.list", `{"status":"pending"}`, "items[id=$.id]", theAnswer),
		tells("payoutRequested", "payout", theAnswer, "payout.amountCents", 5000),
	}},
	"payouts.cancel": {first: []step{{do: "payouts.request", args: `{"amountCents":5000}`}}, args: `{"payoutId":"$1.id"}`, see: []sight{
		sees("earnings.getBalance", "{}", "availableCents", plus(5000)),
		sees("payouts.list", `{"status":"canceled"}`, "items[id=$1.id]", theAnswer, "items[id=$1.id].status", "canceled"),
		sees("payouts.list", `{"status":"pending"}`, "items[id=$1.id]", absent),
	}},
}

// deskEffects are those of notifications and settings.
var deskEffects = effects{
	"notifications.markRead": {
		first: []step{{do: "!notification", args: `{"text":"One"}`}, {do: "!notification", args: `{"text":"Two"}`}},
		args:  `{"notificationIds":["$1.notification.id","$2.notification.id"]}`,
		see: []sight{
			sees("notifications.getCounts", "{}", "notifications", plus(-2)),
			sees("notifications.list", `{"unreadOnly":true}`, "items[id=$1.notification.id]", absent, "items.#", plus(-2)),
			sees("notifications.list", "{}", "items[id=$2.notification.id].isRead", true),
			answers("read", 2),
		},
	},
	"notifications.markAllRead": {first: []step{{do: "notifications.getCounts", args: "{}"}}, args: "{}", see: []sight{
		sees("notifications.getCounts", "{}", "notifications", 0),
		sees("notifications.list", `{"unreadOnly":true}`, "items.#", 0),
		sees("me.get", "{}", "unread.notifications", 0),
	}},
	"notifications.setPreferences": {args: `{"preferences":{"likes":true,"email":false}}`, see: []sight{
		sees("notifications.getPreferences", "{}", "", theAnswer, "likes", true, "email", false, "tips", still{true}),
	}},

	"settings.updateProfile": {args: `{"displayName":"Mia on tour","bio":"Away.","location":"Nowhere","websiteUrl":"https://mia.example"}`, see: []sight{
		sees("settings.get", "{}", "", theAnswer, "displayName", "Mia on tour", "bio", "Away.", "location", "Nowhere", "websiteUrl", "https://mia.example"),
		sees("me.get", "{}", "name", "Mia on tour", "bio", "Away."),
		tells("settingsChanged", "changes", []string{"displayName", "bio", "location", "websiteUrl"}),
	}},
	"settings.setSubscriptionPrice": {args: `{"priceCents":1299}`, see: []sight{
		sees("settings.get", "{}", "", theAnswer, "subscribePriceCents", 1299),
		sees("me.get", "{}", "subscribePriceCents", 1299),
		sees("bundles.get", bundle1, "priceCents", 1299*3*90/100),
		tells("settingsChanged", "changes", []string{"subscriptionPrice"}),
	}, also: costsMore},
	"settings.setWelcomeMessage": {args: `{"enabled":true,"text":"Welcome in!","mediaIds":["$media:10"],"priceCents":400}`, see: []sight{
		sees("settings.getWelcomeMessage", "{}", "", theAnswer, "enabled", true, "text", "Welcome in!", "media.0.id", "$media:10", "priceCents", 400),
		sees("settings.get", "{}", "welcomeMessageEnabled", true),
		tells("settingsChanged", "changes", []string{"welcomeMessage"}),
	}, also: welcomes},
	"settings.setBlockedCountries": {args: `{"countries":["SE","BR"]}`, see: []sight{
		sees("settings.getBlockedCountries", "{}", "countries", []string{"SE", "BR"}),
		sees("settings.get", "{}", "blockedCountries", []string{"SE", "BR"}),
		tells("settingsChanged", "changes", []string{"blockedCountries"}),
	}},
	"settings.addSocialLink": {args: `{"label":"Shop","url":"https://shop.example"}`, see: []sight{
		sees("settings.listSocialLinks", "{}", "items[id=$.id]", theAnswer, "items[id=$.id].label", "Shop", "items[id=$.id].url", "https://shop.example"),
	}},
	"settings.updateSocialLink": {args: `{"linkId":"$social:1","label":"Pictures","url":"https://pictures.example"}`, see: []sight{
		sees("settings.listSocialLinks", "{}", "items[id=$social:1]", theAnswer, "items[id=$social:1].label", "Pictures", "items[id=$social:1].url", "https://pictures.example"),
	}},
	"settings.removeSocialLink": {args: `{"linkId":"$social:3"}`, see: []sight{
		sees("settings.listSocialLinks", "{}", "items[id=$social:3]", absent),
	}},
	"settings.revokeSession": {first: []step{{do: "session"}}, args: `{"sessionId":"$1.id"}`, see: []sight{
		sees("settings.listSessions", "{}", "items[id=$1.id]", absent),
	}, also: func(t *testing.T, s *stage) {
		t.Helper()
		_, err := s.call(s.other, "me.get", "{}")
		refusedAs(t, err, catalog.RefusedSession)
	}},
}

// costsMore: whoever comes now pays the new price.
func costsMore(t *testing.T, s *stage) {
	t.Helper()
	if paid := at(s.order("subscribed", ""), "priceCents"); fmt.Sprint(paid) != "1299" {
		t.Errorf("a new fan paid %v", paid)
	}
}

// welcomes sees that a new fan is greeted.
func welcomes(t *testing.T, s *stage) {
	t.Helper()
	fan := at(s.order("subscribed", ""), "user.id")
	s.event("messageSent", []any{"chatId", fan, "origin", "welcome", "message.text", "Welcome in!", "message.priceCents", 400})
}
