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

// sharedUsers returns the users with whom a link is shared.
func sharedUsers(links func(*world.Creator) *world.Table[row.Link, *row.Link], link string) func(*world.Creator, func(string) int64) any {
	return func(c *world.Creator, id func(string) int64) any { return links(c).Get(id(link)).Shared }
}

// noShares is the reason why no read shows the sharing of a link.
const noShares = "the catalog's links do not show whom they are shared with"

// moneyEffects are the effects on links, promotions, bundles and payouts. The seed has tracking links 0 to 5 (4 has
// ended), trial links 0 to 3 (2 has ended), promotions 0 to 2 (1 has ended) and bundles 1 and 2.
var moneyEffects = effects{
	"trackingLinks.create": {args: `{"name":"Spring tour","tags":["tour","print"]}`, see: []observation{
		shows("trackingLinks.list", "{}", "items[id=$.id].name", "Spring tour"),
		shows("trackingLinks.get", `{"linkId":"$.id"}`, "", theResult, "tags", []string{"tour", "print"}, "clicks", 0, "endedAt", nil),
		shows("trackingLinks.getStats", `{"linkId":"$.id"}`, "subscribers", 0),
	}},
	"trackingLinks.update": {args: `{"linkId":"$tracking:1","name":"Forum","tags":["talk"]}`, see: []observation{
		shows("trackingLinks.get", tracking1, "", theResult, "name", "Forum", "tags", []string{"talk"}),
		shows("trackingLinks.list", `{"query":"forum"}`, "items[id=$tracking:1]", present),
	}},
	"trackingLinks.delete": {args: tracking1, see: []observation{
		notFound("trackingLinks.get", tracking1),
		shows("trackingLinks.list", `{"state":"all"}`, "items[id=$tracking:1]", absent),
	}},
	"trackingLinks.share": {
		args: `{"linkId":"$tracking:1",` + sharedWith, unseen: noShares, see: []observation{returns("shared", true)},
		inside: sharedUsers((*world.Creator).TrackingLinks, "$tracking:1"), want: []string{"$fan:2001"},
	},
	"trackingLinks.unshare": {
		first: []step{{do: "trackingLinks.share", args: `{"linkId":"$tracking:1",` + sharedWith}},
		args:  `{"linkId":"$tracking:1",` + sharedWith, unseen: noShares, see: []observation{returns("shared", false)},
		inside: sharedUsers((*world.Creator).TrackingLinks, "$tracking:1"), want: []string{},
	},
	"trialLinks.create": {args: `{"name":"For readers","durationDays":7,"maxClaims":100,"expiresAt":"2031-05-01T20:00:00Z","tags":["mail"]}`, see: []observation{
		shows("trialLinks.list", "{}", "items[id=$.id].name", "For readers"),
		shows("trialLinks.get", `{"linkId":"$.id"}`, "", theResult, "durationDays", 7, "maxClaims", 100, "claims", 0, "expiresAt", "2031-05-01T20:00:00.000Z", "tags", []string{"mail"}),
	}},
	"trialLinks.update": {args: `{"linkId":"$trial:1","name":"Friends","tags":["friends"]}`, see: []observation{
		shows("trialLinks.get", trial1, "", theResult, "name", "Friends", "tags", []string{"friends"}),
	}},
	"trialLinks.end": {args: trial1, see: []observation{
		shows("trialLinks.get", trial1, "", theResult, "endedAt", present),
		shows("trialLinks.list", `{"state":"active"}`, "items[id=$trial:1]", absent),
		shows("trialLinks.list", `{"state":"ended"}`, "items[id=$trial:1]", present),
	}},
	"trialLinks.delete": {args: trial1, see: []observation{
		notFound("trialLinks.get", trial1),
		shows("trialLinks.list", `{"state":"all"}`, "items[id=$trial:1]", absent),
	}},
	"trialLinks.share": {
		args: `{"linkId":"$trial:1",` + sharedWith, unseen: noShares, see: []observation{returns("shared", true)},
		inside: sharedUsers((*world.Creator).TrialLinks, "$trial:1"), want: []string{"$fan:2001"},
	},
	"trialLinks.unshare": {
		first: []step{{do: "trialLinks.share", args: `{"linkId":"$trial:1",` + sharedWith}},
		args:  `{"linkId":"$trial:1",` + sharedWith, unseen: noShares, see: []observation{returns("shared", false)},
		inside: sharedUsers((*world.Creator).TrialLinks, "$trial:1"), want: []string{},
	},

	"promotions.create": {args: `{"audience":"expired","kind":"discount","percent":40,"maxClaims":20,"expiresInDays":14,"message":"Come back"}`, see: []observation{
		shows("promotions.get", `{"promotionId":"$.id"}`, "", theResult, "audience", "expired", "kind", "discount", "percent", 40, "maxClaims", 20, "message", "Come back", "state", "active", "endsAt", present),
		shows("promotions.list", `{"state":"active"}`, "items[id=$.id].percent", 40),
	}},
	"promotions.update": {args: `{"promotionId":"$promotion:2","message":"Last days","maxClaims":777,"expiresInDays":3}`, see: []observation{
		shows("promotions.get", promotion2, "message", "Last days", "maxClaims", 777, "endsAt", present, "", theResult),
	}},
	"promotions.stop": {args: promotion2, see: []observation{
		shows("promotions.get", promotion2, "", theResult, "state", "ended", "endsAt", present),
		shows("promotions.list", `{"state":"active"}`, "items[id=$promotion:2]", absent),
		shows("promotions.list", `{"state":"ended"}`, "items[id=$promotion:2]", present),
	}},
	"promotions.delete": {args: promotion2, see: []observation{
		notFound("promotions.get", promotion2),
		shows("promotions.list", "{}", "items[id=$promotion:2]", absent),
	}},
	// A month costs $9.99.
	"bundles.create": {args: `{"months":12,"percent":30}`, see: []observation{
		shows("bundles.list", "{}", "items[id=$.id].months", 12),
		shows("bundles.get", `{"bundleId":"$.id"}`, "", theResult, "percent", 30, "priceCents", 999*12*70/100),
	}},
	"bundles.update": {args: `{"bundleId":"$bundle:1","percent":15}`, see: []observation{
		shows("bundles.get", bundle1, "", theResult, "percent", 15, "priceCents", 999*3*85/100),
	}},
	"bundles.delete": {args: bundle1, see: []observation{
		notFound("bundles.get", bundle1),
		shows("bundles.list", "{}", "items[id=$bundle:1]", absent),
	}},

	"payouts.setSchedule": {args: `{"frequency":"monthly"}`, see: []observation{
		shows("payouts.getSchedule", "{}", "", theResult, "frequency", "monthly", "nextPayoutAt", present),
		shows("settings.get", "{}", "payoutFrequency", "monthly"),
	}},
	"payouts.request": {args: `{"amountCents":5000}`, see: []observation{
		shows("earnings.getBalance", "{}", wholeBalance, plus(-5000)),
		shows("payouts.list", "{}", "items[id=$.id].amountCents", 5000, "items[id=$.id].status", "pending"),
		shows("payouts.list", `{"status":"pending"}`, "items[id=$.id]", theResult),
		emits("payoutRequested", "payout", theResult, "payout.amountCents", 5000),
	}},
	"payouts.cancel": {first: []step{{do: "payouts.request", args: `{"amountCents":5000}`}}, args: `{"payoutId":"$1.id"}`, see: []observation{
		shows("earnings.getBalance", "{}", wholeBalance, plus(5000)),
		shows("payouts.list", `{"status":"canceled"}`, "items[id=$1.id]", theResult, "items[id=$1.id].status", "canceled"),
		shows("payouts.list", `{"status":"pending"}`, "items[id=$1.id]", absent),
	}},
}

var settingsEffects = effects{
	"notifications.markRead": {
		first: []step{{do: "!notification", args: `{"text":"One"}`}, {do: "!notification", args: `{"text":"Two"}`}},
		args:  `{"notificationIds":["$1.notification.id","$2.notification.id"]}`,
		see: []observation{
			shows("notifications.getCounts", "{}", "notifications", plus(-2)),
			shows("notifications.list", `{"unreadOnly":true}`, "items[id=$1.notification.id]", absent, "items.#", plus(-2)),
			shows("notifications.list", "{}", "items[id=$2.notification.id].isRead", true),
			returns("read", 2),
		},
	},
	"notifications.markAllRead": {first: []step{{do: "notifications.getCounts", args: "{}"}}, args: "{}", see: []observation{
		shows("notifications.getCounts", "{}", "notifications", 0),
		shows("notifications.list", `{"unreadOnly":true}`, "items.#", 0),
		shows("me.get", "{}", "unread.notifications", 0),
	}},
	"notifications.setPreferences": {args: `{"preferences":{"likes":true,"email":false}}`, see: []observation{
		shows("notifications.getPreferences", "{}", "", theResult, "likes", true, "email", false, "tips", still{true}),
	}},

	"settings.updateProfile": {args: `{"displayName":"Mia on tour","bio":"Away.","location":"Nowhere","websiteUrl":"https://mia.example"}`, see: []observation{
		shows("settings.get", "{}", "", theResult, "displayName", "Mia on tour", "bio", "Away.", "location", "Nowhere", "websiteUrl", "https://mia.example"),
		shows("me.get", "{}", "name", "Mia on tour", "bio", "Away."),
		emits("settingsChanged", "changes", []string{"displayName", "bio", "location", "websiteUrl"}),
	}},
	"settings.setSubscriptionPrice": {args: `{"priceCents":1299}`, see: []observation{
		shows("settings.get", "{}", "", theResult, "subscribePriceCents", 1299),
		shows("me.get", "{}", "subscribePriceCents", 1299),
		shows("bundles.get", bundle1, "priceCents", 1299*3*90/100),
		emits("settingsChanged", "changes", []string{"subscriptionPrice"}),
	}, also: costsMore},
	"settings.setWelcomeMessage": {args: `{"enabled":true,"text":"Welcome in!","mediaIds":["$media:10"],"priceCents":400}`, see: []observation{
		shows("settings.getWelcomeMessage", "{}", "", theResult, "enabled", true, "text", "Welcome in!", "media.0.id", "$media:10", "priceCents", 400),
		shows("settings.get", "{}", "welcomeMessageEnabled", true),
		emits("settingsChanged", "changes", []string{"welcomeMessage"}),
	}, also: welcomes},
	"settings.setBlockedCountries": {args: `{"countries":["SE","BR"]}`, see: []observation{
		shows("settings.getBlockedCountries", "{}", "countries", []string{"SE", "BR"}),
		shows("settings.get", "{}", "blockedCountries", []string{"SE", "BR"}),
		emits("settingsChanged", "changes", []string{"blockedCountries"}),
	}},
	"settings.addSocialLink": {args: `{"label":"Shop","url":"https://shop.example"}`, see: []observation{
		shows("settings.listSocialLinks", "{}", "items[id=$.id]", theResult, "items[id=$.id].label", "Shop", "items[id=$.id].url", "https://shop.example"),
	}},
	"settings.updateSocialLink": {args: `{"linkId":"$social:1","label":"Pictures","url":"https://pictures.example"}`, see: []observation{
		shows("settings.listSocialLinks", "{}", "items[id=$social:1]", theResult, "items[id=$social:1].label", "Pictures", "items[id=$social:1].url", "https://pictures.example"),
	}},
	"settings.removeSocialLink": {args: `{"linkId":"$social:3"}`, see: []observation{
		shows("settings.listSocialLinks", "{}", "items[id=$social:3]", absent),
	}},
	"settings.revokeSession": {first: []step{{do: "session"}}, args: `{"sessionId":"$1.id"}`, see: []observation{
		shows("settings.listSessions", "{}", "items[id=$1.id]", absent),
	}, also: func(t *testing.T, s *effectFixture) {
		t.Helper()
		_, err := s.call(s.other, "me.get", "{}")
		wantRefusal(t, err, catalog.RefusedSession)
	}},
}

// costsMore checks that a new fan pays the new price.
func costsMore(t *testing.T, s *effectFixture) {
	t.Helper()
	if paid := at(s.trigger("subscribed", ""), "priceCents"); fmt.Sprint(paid) != "1299" {
		t.Errorf("a new fan paid %v", paid)
	}
}

// welcomes checks that a new fan gets the welcome message.
func welcomes(t *testing.T, s *effectFixture) {
	t.Helper()
	fan := at(s.trigger("subscribed", ""), "user.id")
	s.event("messageSent", []any{"chatId", fan, "origin", "welcome", "message.text", "Welcome in!", "message.priceCents", 400})
}
