package driver_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/platform/driver/drivertest"
)

// listing is a paged read, and the changes to its list while it is read.
type listing struct {
	first []step
	args  []string // each is a separate case; default: {}
	key   string   // the place that identifies items; default: id
	limit int      // items per page; default: 7
	grow  int      // how many items to add before the list is read
	// add returns the steps that add an item; $9 is the result of the previous step.
	add func(n int) []step
	// drop removes the item $0. only restricts which items can be dropped, as place=value.
	drop *step
	only string
}

// repeatStep adds an item with the same call each time. %d in its arguments is a number that differs each time.
func repeatStep(do, args string) func(int) []step {
	return func(n int) []step {
		if strings.Contains(args, "%d") {
			return []step{{do: do, args: fmt.Sprintf(args, n)}}
		}
		return []step{{do: do, args: args}}
	}
}

// repeatSilently is repeatStep for calls that cause no event yet, although the method declares one.
func repeatSilently(do, args string) func(int) []step {
	add := repeatStep(do, args)
	return func(n int) []step { return []step{{do, add(n)[0].args, noEvents}} }
}

// repeatForStrangers is repeatStep with the numbers of users who are not in any list of fans yet.
func repeatForStrangers(do, args string) func(int) []step {
	return func(n int) []step { return repeatStep(do, args)(2041 + n) }
}

// joinNumbers returns the numbers from one to another with a separator.
func joinNumbers(from, to int, between string) string {
	var list []string
	for n := from; n <= to; n++ {
		list = append(list, strconv.Itoa(n))
	}
	return strings.Join(list, between)
}

// disturbances is the number of gaps between pages in which the list is changed. They are the first ones.
const disturbances = 6

// If items are added to a list and removed from it while it is read page by page, no item comes twice, and no item that
// was there all the time is skipped.
func TestPagesStayStableWhileThingsComeAndGo(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	missing := map[string]bool{}
	for _, m := range r.catalog.Methods() {
		if m.Paginated {
			missing[m.ID()] = true
		}
	}
	for name, one := range listings {
		method, _, _ := strings.Cut(name, "/")
		if !drivertest.Method(t, r.catalog, method).Paginated {
			t.Errorf("%s has no pages", name)
		}
		delete(missing, method)
		if len(one.args) == 0 {
			one.args = []string{"{}"}
		}
		for _, args := range one.args {
			t.Run(name+args, func(t *testing.T) {
				t.Parallel()
				mine := one // check sets its limit
				(&listReading{effectFixture: r.forTest(t).newEffectFixture(), listing: &mine, method: method}).check(args)
			})
		}
	}
	if len(missing) > 0 {
		t.Errorf("no listings for %v", slices.Sorted(maps.Keys(missing)))
	}
}

// listReading is the state of one list while it is read.
type listReading struct {
	*effectFixture
	*listing
	method  string
	added   int
	dropped map[string]bool
}

func (r *listReading) check(args string) {
	r.t.Helper()
	r.dropped = map[string]bool{}
	for n, one := range r.first {
		r.results[fmt.Sprint(n+1)] = r.do(one)
	}
	for range r.grow {
		r.addItem()
	}
	args = r.fill(args)
	if r.limit == 0 {
		r.limit = 7
	}
	there := r.pages(r.method, args, 100, nil)
	if len(there) <= r.limit && (r.add != nil || r.drop != nil) {
		r.t.Fatalf("%d items are one page, so the list cannot be changed between pages", len(there))
	}
	gaps := 0
	choose := random(r.method+args, 0)
	came := r.pages(r.method, args, r.limit, func(came []any) {
		if gaps++; gaps > disturbances {
			return
		}
		r.addItem()
		seen := map[string]bool{}
		for _, one := range came {
			seen[r.name(one)] = true
		}
		unseen := slices.DeleteFunc(slices.Clone(there), func(one any) bool { return seen[r.name(one)] || !r.canDrop(one) })
		if len(unseen) > 0 {
			r.dropItem(unseen[choose.IntN(len(unseen))])
		}
		// Dropping the last item of the page is the hardest case, because the cursor may refer to it.
		if last := came[len(came)-1]; gaps%2 == 0 && r.canDrop(last) {
			r.dropItem(last)
		}
	})
	r.compare(there, came)
}

func (r *listReading) compare(there, came []any) {
	r.t.Helper()
	times := map[string]int{}
	for _, one := range came {
		if times[r.name(one)]++; times[r.name(one)] == 2 {
			r.t.Errorf("%s came twice", r.name(one))
		}
	}
	for _, one := range there {
		if name := r.name(one); times[name] == 0 && !r.dropped[name] {
			r.t.Errorf("%s was there all the time and was skipped", name)
		}
	}
}

func (r *listReading) addItem() {
	r.t.Helper()
	if r.add == nil {
		return
	}
	for _, one := range r.add(r.added) {
		r.results["9"] = r.do(one)
	}
	r.added++
}

func (r *listReading) dropItem(item any) {
	r.t.Helper()
	r.results["0"] = item
	r.do(*r.drop)
	r.dropped[r.name(item)] = true
}

func (r *listReading) canDrop(item any) bool {
	place, value, _ := strings.Cut(r.only, "=")
	return r.drop != nil && !r.dropped[r.name(item)] && (r.only == "" || fmt.Sprint(at(item, place)) == r.fill(value))
}

func (r *listReading) name(item any) string {
	if r.key == "" {
		return fmt.Sprint(at(item, "id"))
	}
	return fmt.Sprint(at(item, r.key))
}

// refollow ends a subscription of the creator and starts it again.
func refollow(int) []step {
	return []step{{do: "users.unfollow", args: `{"userId":"$fan:2003"}`}, {do: "users.follow", args: `{"userId":"$fan:2003"}`}}
}

// listings are all paged reads.
var listings = map[string]listing{
	"chats.list": {
		args: []string{`{"query":"i"}`, `{"query":"i","order":"old"}`},
		add:  func(n int) []step { return repeatStep("messages.send", `{"chatId":"$fan:%d","text":"Hello"}`)(301 + n) },
		drop: &step{do: "chats.delete", args: `{"chatId":"$0.id"}`},
	},
	// Sending a medium again would move it to the front, so only new ones are sent.
	"chats.listMedia": {args: []string{chat1}, grow: 15, add: func(int) []step {
		return []step{{do: "!mediaReady"}, {do: "messages.send", args: `{"chatId":"$fan:1","mediaIds":["$9.media.id"]}`}}
	}},
	"comments.list": {
		args: []string{comments, `{"postId":"$post:120","order":"oldest"}`}, grow: 15, add: repeatStep("comments.create", `{"postId":"$post:120","text":"Hello"}`),
		drop: &step{do: "comments.delete", args: `{"postId":"$post:120","commentId":"$0.id"}`},
	},
	"drafts.list": {
		args: []string{`{"kind":"post"}`}, grow: 15, add: repeatSilently("posts.create", `{"text":"Not yet","saveForLater":true}`),
		drop: &step{do: "drafts.delete", args: `{"kind":"post","draftId":"$0.id"}`},
	},
	"drafts.list/messages": {args: []string{`{"kind":"message"}`}, limit: 1, drop: &step{do: "drafts.delete", args: `{"kind":"message","draftId":"$0.id"}`}},
	"earnings.listTransactions": {
		args: []string{`{"userId":"$fan:1"}`, `{"type":"tip","from":"$ago:15"}`}, grow: 15, add: repeatStep("!tips", `{"user_id":$fan:1}`),
	},
	"earnings.listTransactions/pending": {
		args: []string{`{"userId":"$fan:1","status":"pending"}`}, grow: 15, add: repeatStep("!tips", `{"user_id":$fan:1}`),
		drop: &step{do: "!chargeback", args: `{"ref_id":$0.id}`},
	},
	"earnings.listChargebacks": {grow: 4, add: repeatStep("!chargeback", "")},
	"earnings.listReferrals":   {add: repeatStep("!transaction", "")},
	"fans.list": {
		args: []string{`{"query":"iris"}`, `{"query":"iris","order":"spend"}`, `{"query":"iris","order":"expiring"}`}, key: "user.id",
		add:  func(n int) []step { return repeatStep("!resubscribed", `{"user_id":$fan:%d}`)(8 + 10*n) },
		drop: &step{do: "!subscriptionExpired", args: `{"user_id":$0.user.id}`},
	},
	"fans.listLatest":             {args: []string{`{"kind":"new","from":"$ago:10"}`, `{"from":"$ago:3"}`}, key: "user.id", add: repeatStep("!subscribed", "")},
	"fans.listTop":                {args: []string{`{"by":"tips","from":"$day:60"}`}, key: "user.id", add: repeatForStrangers("!tips", `{"user_id":$fan:%d,"amount":70}`)},
	"fans.getSubscriptionHistory": {args: []string{fan1}, key: "startedAt", grow: 15, add: repeatStep("!subscriptionRenewed", `{"user_id":$fan:1}`)},
	"following.list": {
		args: []string{"{}"}, key: "user.id", add: func(n int) []step { return repeatStep("users.follow", `{"userId":"$fan:%d"}`)(2041 + 3*n) },
		drop: &step{do: "users.unfollow", args: `{"userId":"$0.user.id"}`},
	},
	"following.getHistory": {args: []string{`{"userId":"$fan:2003"}`}, key: "startedAt", limit: 1, grow: 1, add: refollow},
	"gifs.trending":        {},
	"gifs.search":          {args: []string{`{"query":"a"}`}},
	"highlights.list": {
		grow: 15, add: repeatStep("highlights.create", `{"title":"%d","storyIds":["$story:20"]}`), drop: &step{do: "highlights.delete", args: `{"highlightId":"$0.id"}`},
	},
	"labels.list": {grow: 15, add: repeatStep("labels.create", `{"name":"%d"}`), drop: &step{do: "labels.delete", args: `{"labelId":"$0.id"}`}},
	"lists.list": {
		grow: 15, add: repeatStep("lists.create", `{"name":"%d"}`), drop: &step{do: "lists.delete", args: `{"listId":"$0.id"}`}, only: "canEdit=true",
	},
	"lists.listUsers": {
		args:  []string{`{"listId":"$1.id"}`, `{"listId":"$1.id","order":"name"}`, `{"listId":"$1.id","order":"spend"}`},
		first: []step{{do: "lists.create", args: `{"name":"Many"}`}}, grow: 30,
		add: func(n int) []step {
			return repeatStep("lists.addUsers", `{"listId":"$1.id","userIds":["$fan:%d"]}`)(1 + n*7%100)
		},
		drop: &step{do: "lists.removeUsers", args: `{"listId":"$1.id","userIds":["$0.id"]}`},
	},
	"massMessages.list": {
		args: []string{"{}", `{"state":"scheduled"}`}, grow: 15, add: repeatSilently("massMessages.send", `{"text":"%d","scheduledAt":"2035-01-01T18:00:00Z"}`),
		drop: &step{do: "massMessages.cancel", args: `{"massMessageId":"$0.id"}`}, only: "state=scheduled",
	},
	"massMessages.listBuyers": {
		args: []string{`{"massMessageId":"$1.id"}`}, key: "user.id", grow: 15, add: repeatStep("!messagePurchased", `{"ref_id":$1.id}`),
		first: []step{{do: "massMessages.send", args: `{"text":"For sale","priceCents":500,"userIds":["$fan:` + joinNumbers(1, 30, `","$fan:`) + `"]}`}},
	},
	"messages.list": {
		args: []string{chat1, `{"chatId":"$fan:1","order":"asc"}`}, grow: 15, add: repeatStep("messages.send", `{"chatId":"$fan:1","text":"Hello"}`),
		drop: &step{do: "messages.unsend", args: `{"chatId":"$fan:1","messageId":"$0.id"}`}, only: "text=Hello",
	},
	"messages.search": {
		args: []string{`{"chatId":"$fan:1","query":"o"}`}, grow: 15, add: repeatStep("messages.send", `{"chatId":"$fan:1","text":"Hello"}`),
		drop: &step{do: "messages.unsend", args: `{"chatId":"$fan:1","messageId":"$0.id"}`}, only: "text=Hello",
	},
	"messages.listBuyers": {args: []string{`{"messageId":"$message:2"}`}, key: "user.id"},
	"notifications.list":  {add: repeatStep("!notification", "")},
	"notifications.list/unread": {
		args: []string{`{"unreadOnly":true}`}, grow: 10, add: repeatStep("!notification", ""), drop: &step{do: "notifications.markRead", args: `{"notificationIds":["$0.id"]}`},
	},
	"payouts.list": {
		args: []string{"{}", `{"status":"pending"}`}, grow: 15, add: repeatStep("payouts.request", `{"amountCents":2000}`),
		drop: &step{do: "payouts.cancel", args: `{"payoutId":"$0.id"}`}, only: "status=pending",
	},
	"posts.list": {
		args: []string{"{}", `{"order":"oldest"}`, `{"order":"tips"}`, `{"order":"likes"}`}, add: repeatStep("!postPublished", ""),
		drop: &step{do: "posts.delete", args: `{"postId":"$0.id"}`},
	},
	"posts.list/scheduled": {
		args: []string{`{"state":"scheduled"}`}, grow: 15, add: repeatSilently("posts.create", `{"text":"%d","scheduledAt":"2035-01-01T18:00:00Z"}`),
		drop: &step{do: "posts.update", args: `{"postId":"$0.id","scheduledAt":"2020-01-01T18:00:00Z"}`, wait: []string{"postPublished"}},
	},
	"posts.listByUser": {args: []string{`{"userId":"$me"}`}, add: repeatStep("!postPublished", ""), drop: &step{do: "posts.archive", args: `{"postId":"$0.id"}`}},
	"posts.listLikers": {args: []string{`{"postId":"$post:120"}`}, add: repeatStep("!postLiked", `{"ref_id":$post:120}`)},
	"posts.listBuyers": {
		args: []string{`{"postId":"$post:120"}`}, key: "user.id", grow: 15, add: repeatStep("!postPurchased", `{"ref_id":$post:120}`),
	},
	"promotions.list": {
		grow: 15, add: repeatStep("promotions.create", `{"audience":"new","kind":"discount"}`), drop: &step{do: "promotions.delete", args: `{"promotionId":"$0.id"}`},
	},
	"promotions.listClaimers": {
		first: []step{{do: "promotions.create", args: `{"audience":"both","kind":"trial"}`}},
		args:  []string{`{"promotionId":"$1.id"}`}, key: "user.id", grow: 15, add: repeatStep("!trialClaimed", `{"ref_id":$1.id}`),
	},
	"queue.list": {
		args: []string{span}, grow: 15, add: repeatSilently("posts.create", `{"text":"%d","scheduledAt":"2031-01-01T18:00:00Z"}`),
		drop: &step{do: "queue.delete", args: `{"queueId":"$0.id"}`},
	},
	"releaseForms.list":         {grow: 15, add: repeatStep("releaseForms.createInvite", `{"name":"%d"}`)},
	"releaseForms.listTaggable": {},
	"stories.listArchive":       {add: repeatStep("!storyExpired", ""), drop: &step{do: "stories.delete", args: `{"storyId":"$0.id"}`}},
	"stories.listViewers": {
		args: []string{`{"storyId":"$story:33"}`}, key: "user.id", add: repeatStep("!storyViewed", `{"ref_id":$story:33}`),
	},
	"streams.list": {
		grow: 15, add: repeatStep("streams.schedule", `{"title":"%d","startsAt":"2031-01-01T18:00:00Z"}`),
		drop: &step{do: "streams.cancel", args: `{"streamId":"$0.id"}`}, only: "state=scheduled",
	},
	"streams.listComments": {args: []string{live}, grow: 15, add: repeatStep("!streamComment", `{"ref_id":$stream:9}`)},
	"trackingLinks.list": {
		args: []string{`{"state":"all"}`, `{"state":"all","order":"clicks"}`, `{"state":"all","order":"revenue"}`}, grow: 15,
		add: repeatStep("trackingLinks.create", `{"name":"%d"}`), drop: &step{do: "trackingLinks.delete", args: `{"linkId":"$0.id"}`},
	},
	"trackingLinks.listSubscribers": {args: []string{tracking1}, key: "user.id"},
	"trackingLinks.listSpenders":    {args: []string{tracking1}, key: "user.id"},
	"trialLinks.list": {
		args: []string{"{}", `{"state":"all"}`}, grow: 15, add: repeatStep("trialLinks.create", `{"name":"%d","durationDays":7}`),
		drop: &step{do: "trialLinks.delete", args: `{"linkId":"$0.id"}`},
	},
	"trialLinks.listSubscribers": {args: []string{trial1}, key: "user.id", add: repeatForStrangers("!trialClaimed", `{"ref_id":$trial:1,"user_id":$fan:%d}`)},
	"trialLinks.listSpenders":    {args: []string{trial1}, key: "user.id"},
	"users.search":               {args: []string{`{"query":"iris"}`}, add: repeatStep("!subscribed", "")},
	"users.listBlocked": {
		grow: 15, add: func(n int) []step { return repeatStep("users.block", `{"userId":"$fan:%d"}`)(1 + n) }, drop: &step{do: "users.unblock", args: `{"userId":"$0.id"}`},
	},
	"users.listRestricted": {
		grow: 15, add: func(n int) []step { return repeatStep("users.restrict", `{"userId":"$fan:%d"}`)(1 + n) }, drop: &step{do: "users.unrestrict", args: `{"userId":"$0.id"}`},
	},
	"vault.list": {
		args: []string{`{"query":"re"}`, `{"query":"re","order":"oldest"}`, `{"query":"re","order":"mostLiked"}`, `{"query":"re","order":"highestTips"}`},
		grow: 8, add: repeatStep("!mediaReady", `{"text":"red-%d.jpg"}`), drop: &step{do: "vault.delete", args: `{"mediaIds":["$0.id"]}`},
	},
	"vault.listUsage": {
		args: []string{`{"mediaId":"$media:3"}`}, key: "refId", grow: 15, add: repeatStep("messages.send", `{"chatId":"$fan:1","mediaIds":["$media:3"]}`),
		drop: &step{do: "messages.unsend", args: `{"chatId":"$fan:1","messageId":"$0.refId"}`}, only: "kind=message",
	},
	"vaultFolders.list": {
		grow: 15, add: repeatStep("vaultFolders.create", `{"name":"%d"}`), drop: &step{do: "vaultFolders.delete", args: `{"folderId":"$0.id"}`}, only: "isSystem=false",
	},
	"vaultFolders.listMedia": {
		args: []string{`{"folderId":"$folder:5"}`}, grow: 10,
		add: func(n int) []step {
			return repeatStep("vaultFolders.addMedia", `{"folderId":"$folder:5","mediaIds":["$media:%d"]}`)(100 + n)
		},
		drop: &step{do: "vaultFolders.removeMedia", args: `{"folderId":"$folder:5","mediaIds":["$0.id"]}`},
	},
}
