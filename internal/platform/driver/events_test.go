package driver_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// eventJudge validates what events carry against the schemas of their kinds.
type eventJudge map[string]*jsonschema.Schema

func newEventJudge(t *testing.T, c *catalog.Catalog) eventJudge {
	t.Helper()
	types, data := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for _, one := range c.Types() {
		types[one.Name] = one.Schema
	}
	for _, kind := range c.Events() {
		data[kind.Kind] = kind.Schema()
	}
	text, err := json.Marshal(map[string]any{"types": types, "data": data})
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("catalog.json", document); err != nil {
		t.Fatal(err)
	}
	j := eventJudge{}
	for _, kind := range c.Events() {
		if j[kind.Kind], err = compiler.Compile("catalog.json#/data/" + kind.Kind); err != nil {
			t.Fatalf("%s: %v", kind.Kind, err)
		}
	}
	return j
}

func (j eventJudge) check(t *testing.T, e *catalog.Event) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(e.Data))
	if err != nil {
		t.Fatalf("%s carries no JSON: %v", e.Kind, err)
	}
	if err := j[e.Kind].Validate(value); err != nil {
		t.Errorf("%s: %v\n%.400s", e.Kind, err, e.Data)
	}
}

// Each kind is ordered without saying to whom or about what, comes by the socket as its class and schema say, and can be listed
// afterwards if it is durable.
func TestEveryKindOfEventHappensAndIsWhatItsSchemaSays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := newEventJudge(t, r.catalog)
	if n := len(r.catalog.Events()); n != 54 {
		t.Errorf("the catalog has %d kinds of platform events, want 54", n)
	}
	for _, kind := range r.catalog.Events() {
		t.Run(kind.Kind, func(t *testing.T) {
			t.Parallel()
			s := r.in(t).stage()
			before := s.since("")
			last := ""
			if len(before) > 0 {
				last = before[len(before)-1].UpstreamID
			}
			s.order(kind.Kind, "")
			e := s.events[len(s.events)-1]
			if e.Class != kind.Class || e.UpstreamID == "" || time.Since(e.At).Abs() > time.Minute {
				t.Errorf("came as %s, id %q, at %s; want %s now", e.Class, e.UpstreamID, e.At, kind.Class)
			}
			kept := s.since(last)
			// With it came others, such as the transaction of a tip; they are judged as well.
			for _, one := range slices.Concat(s.events, kept) {
				j.check(t, &one)
			}
			at := slices.IndexFunc(kept, func(one catalog.Event) bool { return one.UpstreamID == e.UpstreamID })
			switch {
			case (at >= 0) != (kind.Class == catalog.Durable):
				t.Errorf("a %s event was kept: %t", kind.Class, at >= 0)
			case at >= 0 && (kept[at].Kind != e.Kind || !kept[at].At.Equal(e.At) || !bytes.Equal(kept[at].Data, e.Data)):
				t.Errorf("it was kept as another one: %s %s\n%s", kept[at].Kind, kept[at].Data, e.Data)
			}
		})
	}
}

// since lists what happened behind an event.
func (s *stage) since(after string) []catalog.Event {
	s.t.Helper()
	var all []catalog.Event
	for more := true; more; {
		missed, err := s.driver.Since(s.t.Context(), via("us"), s.session, after)
		if err != nil || missed.Skipped > 0 {
			s.t.Fatalf("%d frames were not understood, %v", missed.Skipped, err)
		}
		all, more, after = append(all, missed.Events...), missed.More, missed.Last
	}
	return all
}

// What happens is really so: reads show it. Nothing can show what is marked as unseen.
func TestEveryKindOfEventIsSeenByAReadAfterwards(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, kind := range r.catalog.Events() {
		one, known := happenings[kind.Kind]
		if reads := slices.ContainsFunc(one.see, func(s sight) bool { return s.read != "" }); !known || reads == (one.unseen != "") {
			t.Errorf("%s: a row has a read that shows it, or says why there is none", kind.Kind)
		}
		if one.unseen != "" {
			continue
		}
		t.Run(kind.Kind, func(t *testing.T) {
			t.Parallel()
			r.in(t).stage().show(t, "!"+kind.Kind, &one)
		})
	}
}

const (
	tipsOf1  = `{"userId":"$fan:1","type":"tip"}`
	allTimes = `{"from":"2020-01-01","to":"2036-12-31","kind":"new"}`
	live     = `{"streamId":"$stream:9"}`
)

// happenings are what the world outside does; args say who and what in the words of POST /control/happen. $. is what the event carries.
var happenings = effects{
	"message": {args: `{"user_id":$fan:1,"text":"Hello you"}`, see: []sight{
		sees("messages.list", chat1, "items[id=$.message.id]", same("message"), "items[id=$.message.id].text", "Hello you", "items[id=$.message.id].fromUserId", "$fan:1"),
		sees("chats.get", chat1, "unreadCount", plus(1), "lastMessage.id", "$.message.id"),
		sees("chats.getUnreadCounts", "{}", "chats", plus(1)),
		answers("chatId", "$fan:1", "fromUser.id", "$fan:1", "message.text", "Hello you"),
	}},
	"messageSent": {args: `{"user_id":$fan:1,"text":"By phone","amount":3}`, see: []sight{
		sees("messages.list", chat1, "items[id=$.message.id]", same("message"), "items[id=$.message.id].text", "By phone", "items[id=$.message.id].priceCents", 300, "items[id=$.message.id].fromUserId", "$me"),
		answers("chatId", "$fan:1", "origin", "native"),
	}},
	"messageRead": {unseen: "the catalog's Chat does not show what the fan has read"},
	"messageDeleted": {first: []step{{do: "!message", args: `{"user_id":$fan:1}`}}, args: `{"ref_id":$1.message.id}`, see: []sight{
		gone("messages.get", `{"chatId":"$fan:1","messageId":"$1.message.id"}`),
		sees("chats.get", chat1, "unreadCount", plus(-1)),
		answers("messageId", "$1.message.id", "by", "fan"),
	}},
	"messageLiked": {first: written, args: `{"ref_id":$1.id}`, see: []sight{
		sees("notifications.list", `{"type":"likes"}`, "items[refId=$1.id].user.id", "$fan:1"),
		answers("messageId", "$1.id", "user.id", "$fan:1"),
	}},
	"messageUnliked": {unseen: "the catalog's Message shows the creator's own like only, and nobody is told of a like that went"},
	"messagePurchased": {first: []step{{do: "messages.send", args: `{"chatId":"$fan:1","text":"For sale","priceCents":1250}`}}, args: `{"ref_id":$1.id}`, see: []sight{
		sees("messages.get", `{"chatId":"$fan:1","messageId":"$1.id"}`, "isLocked", false, "isOpened", true),
		sees("messages.listBuyers", `{"messageId":"$1.id"}`, "items.0.user.id", "$fan:1", "items.0.priceCents", 1250),
		sees("fans.getSpend", fan1, "messagesCents", plus(1250), "totalCents", plus(1250)),
		sees("earnings.listTransactions", `{"userId":"$fan:1"}`, "items[id=$.transactionId].grossCents", 1250, "items[id=$.transactionId].netCents", 1000, "items[id=$.transactionId].type", "message"),
		answers("priceCents", 1250, "netCents", 1000),
	}},
	"chatRead": {first: []step{{do: "!message", args: `{"user_id":$fan:1}`}}, args: `{"user_id":$fan:1}`, see: []sight{
		sees("chats.get", chat1, "unreadCount", 0), answers("chatId", "$fan:1", "all", false),
	}},
	"typing": {unseen: "it is not kept"},
	"subscribed": {see: []sight{
		sees("fans.get", `{"userId":"$.user.id"}`, "status", "active", "expiresAt", "$.expiresAt", "totalSpentCents", 999),
		sees("fans.list", `{"limit":1}`, "items.0.user.id", "$.user.id"),
		sees("fans.listLatest", `{"kind":"new","limit":1}`, "items.0.user.id", "$.user.id"),
		sees("me.get", "{}", "fansCount", plus(1)),
		sees("lists.get", `{"listId":"$list:1"}`, "usersCount", plus(1)),
		sees("statistics.subscribers", allTimes, "total", plus(1)),
		sees("earnings.listTransactions", `{"type":"subscription","limit":1}`, "items.0.user.id", "$.user.id", "items.0.grossCents", still{999}),
		answers("priceCents", 999, "kind", "paid", "months", 1),
	}},
	"resubscribed": {args: `{"user_id":$fan:8}`, see: []sight{
		sees("fans.get", `{"userId":"$fan:8"}`, "status", "active", "expiresAt", "$.expiresAt"),
		sees("me.get", "{}", "fansCount", plus(1)),
		sees("fans.getSubscriptionHistory", `{"userId":"$fan:8"}`, "items.#", plus(1)),
	}},
	"subscriptionRenewed": {args: `{"user_id":$fan:1}`, see: []sight{
		sees("fans.get", fan1, "expiresAt", later(30*day), "totalSpentCents", plus(999)),
		sees("fans.getSubscriptionHistory", fan1, "items.#", plus(1)),
	}},
	"subscriptionExpired": {args: `{"user_id":$fan:1}`, see: []sight{
		sees("fans.get", fan1, "status", "expired", "expiresAt", some),
		sees("me.get", "{}", "fansCount", plus(-1)),
		sees("lists.get", `{"listId":"$list:2"}`, "usersCount", plus(1)),
	}},
	"autoRenewChanged": {args: `{"user_id":$fan:1}`, see: []sight{sees("fans.get", fan1, "autoRenew", some), answers("user.id", "$fan:1")}},
	"trialClaimed": {args: `{"ref_id":$trial:1,"user_id":$fan:2041}`, see: []sight{
		sees("trialLinks.get", trial1, "claims", plus(1), "subscribers", plus(1)),
		sees("trialLinks.listSubscribers", trial1, "items.0.user.id", "$fan:2041"),
		sees("fans.get", `{"userId":"$fan:2041"}`, "status", "active", "source.linkId", "$trial:1", "expiresAt", "$.expiresAt"),
		answers("linkId", "$trial:1", "days", 30),
	}},
	"linkClicked": {args: `{"ref_id":$tracking:1,"count":3}`, see: []sight{
		sees("trackingLinks.get", tracking1, "clicks", plus(3)), sees("trackingLinks.getStats", tracking1, "clicks", plus(3)),
	}},
	"tips": {args: `{"user_id":$fan:1,"amount":7.5,"text":"For the strings"}`, see: []sight{
		sees("earnings.listTransactions", tipsOf1, "items[id=$.id].grossCents", 750, "items[id=$.id].netCents", 600, "items[id=$.id].status", "pending"),
		sees("earnings.getBalance", "{}", "pendingCents", plus(600)),
		sees("fans.getSpend", fan1, "tipsCents", plus(750)),
		sees("messages.list", `{"chatId":"$fan:1","limit":1}`, "items.0.isTip", true, "items.0.tipCents", 750, "items.0.text", "For the strings"),
		sees("notifications.getCounts", "{}", "tips", plus(1)),
		answers("amountCents", 750, "netCents", 600, "target.kind", "profile", "message", "For the strings"),
	}},
	"transaction": {args: `{"amount":15}`, see: []sight{
		sees("earnings.getTransaction", `{"transactionId":"$.transaction.id"}`, "", same("transaction"), "grossCents", 1500, "type", "referral"),
		sees("earnings.listReferrals", `{"limit":1}`, "items.0.transactionId", "$.transaction.id"),
		sees("earnings.getBalance", "{}", "pendingCents", plus(1200)),
	}},
	"chargeback": {first: []step{{do: "!tips", args: `{"user_id":$fan:1,"amount":7.5}`}}, args: `{"ref_id":$1.id}`, see: []sight{
		sees("earnings.getTransaction", `{"transactionId":"$1.id"}`, "status", "reversed"),
		sees("earnings.listChargebacks", `{"limit":1}`, "items.0", same("chargeback"), "items.0.transactionId", "$1.id", "items.0.amountCents", 750),
		sees("earnings.getChargebackRatio", "{}", "count", plus(1)),
		sees("earnings.getBalance", "{}", "pendingCents", plus(-600)),
		sees("fans.getSpend", fan1, "tipsCents", plus(-750)),
		answers("chargeback.transactionId", "$1.id"),
	}},
	"payoutRequested": {args: `{"amount":50}`, see: []sight{
		sees("earnings.getBalance", "{}", "availableCents", plus(-5000)),
		sees("payouts.list", "{}", "items[id=$.payout.id]", same("payout"), "items[id=$.payout.id].status", "pending"),
	}},
	"payoutPaid": {first: []step{{do: "payouts.request", args: `{"amountCents":5000}`}}, args: `{"ref_id":$1.id}`, see: []sight{
		sees("payouts.list", "{}", "items[id=$1.id].status", "paid", "items[id=$1.id].paidAt", some, "items[id=$1.id]", same("payout")),
		sees("earnings.getBalance", "{}", "availableCents", still{plus(0)}),
	}},
	"payoutFailed": {first: []step{{do: "payouts.request", args: `{"amountCents":5000}`}}, args: `{"ref_id":$1.id,"reason":"No such bank."}`, see: []sight{
		sees("payouts.list", "{}", "items[id=$1.id].status", "failed", "items[id=$1.id]", same("payout")),
		sees("earnings.getBalance", "{}", "availableCents", plus(5000)),
		answers("reason", "No such bank."),
	}},
	"postPublished": {args: `{"text":"From the phone"}`, see: []sight{
		sees("posts.list", `{"limit":1}`, "items.0", same("post"), "items.0.text", "From the phone"),
		sees("me.get", "{}", "postsCount", plus(1)),
	}},
	"postUpdated": {args: `{"ref_id":$post:120,"text":"Mended"}`, see: []sight{sees("posts.get", `{"postId":"$post:120"}`, "text", "Mended")}},
	"postDeleted": {args: `{"ref_id":$post:120}`, see: []sight{gone("posts.get", `{"postId":"$post:120"}`)}},
	"postExpired": {args: `{"ref_id":$post:120}`, see: []sight{
		sees("posts.list", `{"state":"expired"}`, "items[id=$post:120]", some),
		sees("posts.list", published, "items[id=$post:120]", absent),
	}},
	"postLiked": {args: `{"ref_id":$post:120}`, see: []sight{
		sees("posts.get", `{"postId":"$post:120"}`, "likes", plus(1)),
		sees("posts.listLikers", `{"postId":"$post:120","limit":1}`, "items.0.id", "$.user.id"),
	}},
	"postCommented": {args: `{"ref_id":$post:120,"user_id":$fan:1,"text":"Lovely"}`, see: []sight{
		sees("comments.list", comments, "items[id=$.comment.id]", same("comment"), "items[id=$.comment.id].text", "Lovely", "items[id=$.comment.id].author.id", "$fan:1"),
		sees("posts.get", comments, "comments", plus(1)),
		sees("notifications.list", `{"type":"comments"}`, "items.#", plus(1), "items.0.refId", still{"$post:120"}),
	}},
	"postPurchased": {args: `{"ref_id":$post:120}`, see: []sight{
		sees("posts.listBuyers", `{"postId":"$post:120","limit":1}`, "items.0.user.id", "$.user.id"),
		sees("posts.getStats", `{"postId":"$post:120"}`, "purchases", plus(1), "purchasesCents", plus(2000)),
		sees("earnings.getTransaction", `{"transactionId":"$.transactionId"}`, "type", "post", "refId", "$post:120", "grossCents", 2000),
	}},
	"postFundraisingUpdated": {args: `{"ref_id":$post:113,"amount":20}`, see: []sight{
		sees("posts.get", `{"postId":"$post:113"}`, "fundraising.progressCents", plus(2000), "tipsCents", plus(2000)),
		answers("postId", "$post:113"),
	}},
	"mention": {args: `{"user_id":$fan:2003}`, see: []sight{
		sees("posts.listByUser", `{"userId":"$fan:2003"}`, "items[id=$.refId].authorId", "$fan:2003"),
		sees("notifications.list", `{"type":"mentions","limit":1}`, "items.0.refId", "$.refId"),
	}},
	"storyPublished": {args: `{"text":"Morning"}`, see: []sight{
		sees("stories.listActive", "{}", "items[id=$.story.id]", same("story"), "items[id=$.story.id].text", "Morning"),
	}},
	"storyExpired": {first: []step{{do: "stories.create", args: story1}}, args: `{"ref_id":$1.id}`, see: []sight{
		sees("stories.listActive", "{}", "items[id=$1.id]", absent), sees("stories.listArchive", "{}", "items[id=$1.id]", some),
	}},
	"storyViewed": {first: []step{{do: "stories.create", args: story1}}, args: `{"ref_id":$1.id,"count":2}`, see: []sight{
		sees("stories.get", `{"storyId":"$1.id"}`, "views", 2), sees("stories.listViewers", `{"storyId":"$1.id"}`, "items.#", 2),
		sees("stories.getStats", `{"storyId":"$1.id"}`, "views", 2), answers("views", 2),
	}},
	"stream": {args: `{"text":"Tomorrow"}`, see: []sight{
		sees("streams.list", `{"state":"scheduled"}`, "items[id=$.stream.id]", same("stream"), "items[id=$.stream.id].title", "Tomorrow"),
		sees("queue.list", span, "items[refId=$.stream.id].kind", "stream"),
	}},
	"streamStarted": {args: `{"ref_id":$stream:7}`, see: []sight{sees("streams.get", `{"streamId":"$stream:7"}`, "", same("stream"), "state", "live", "startedAt", some)}},
	"streamStopped": {args: `{"ref_id":$stream:9}`, see: []sight{sees("streams.get", live, "", same("stream"), "state", "ended", "endedAt", some)}},
	"streamUpdated": {args: `{"ref_id":$stream:9,"text":"Requests"}`, see: []sight{sees("streams.get", live, "", same("stream"), "title", "Requests")}},
	"streamComment": {args: `{"ref_id":$stream:9,"text":"Hi!"}`, see: []sight{
		sees("streams.listComments", live, "items[id=$.comment.id]", same("comment"), "items[id=$.comment.id].text", "Hi!"), sees("streams.getStats", live, "comments", plus(1)),
	}},
	"streamViewers": {args: `{"ref_id":$stream:9,"count":4}`, see: []sight{sees("streams.get", live, "viewers", plus(4)), answers("joined.id", some)}},
	"streamLiked":   {args: `{"ref_id":$stream:9,"count":4}`, see: []sight{sees("streams.get", live, "likes", plus(4))}},
	"massMessageSent": {args: `{"ref_id":$mass:25}`, see: []sight{
		sees("massMessages.get", `{"massMessageId":"$mass:25"}`, "", same("massMessage"), "state", "sent", "sentAt", some), sees("queue.list", span, "items[refId=$mass:25]", absent),
	}},
	"queuePublished": {args: `{"ref_id":$post:121}`, see: []sight{
		sees("queue.list", span, "items[id=$post:121]", absent), sees("posts.get", `{"postId":"$post:121"}`, "publishedAt", some),
	}},
	"queueFailed": {args: `{"ref_id":$post:121,"reason":"Too large."}`, see: []sight{
		sees("queue.list", span, "items[id=$post:121]", absent), sees("drafts.get", `{"kind":"post","draftId":"$post:121"}`, "id", "$post:121"),
		answers("error", "Too large.", "item.state", "failed"),
	}},
	"mediaReady": {args: `{"text":"beach.jpg"}`, see: []sight{
		sees("vault.list", `{"query":"beach.jpg"}`, "items[id=$.media.id]", same("media"), "items[id=$.media.id].state", "ready"), sees("uploads.get", `{"uploadId":"$.uploadId"}`, "mediaId", "$.media.id"),
	}},
	"mediaFailed": {args: `{"reason":"Broken."}`, see: []sight{
		sees("vault.get", `{"mediaId":"$.media.id"}`, "", same("media"), "state", "failed"), sees("uploads.get", `{"uploadId":"$.uploadId"}`, "state", "failed", "error", "Broken."),
	}},
	"listUpdated": {first: twoOnAList, args: `{"ref_id":$1.id,"user_id":$fan:3}`, see: []sight{
		sees("lists.listUsers", `{"listId":"$1.id"}`, "items[id=$fan:3]", some), sees("lists.get", `{"listId":"$1.id"}`, "", same("list"), "usersCount", 3), answers("added", 1),
	}},
	"profileUpdated":  {args: `{"text":"Away."}`, see: []sight{sees("me.get", "{}", "bio", "Away."), answers("changes", []string{"bio"})}},
	"settingsChanged": {args: `{"text":"Faro"}`, see: []sight{sees("settings.get", "{}", "location", "Faro"), answers("changes", []string{"location"})}},
	"notification": {args: `{"text":"A word"}`, see: []sight{
		sees("notifications.list", `{"limit":1}`, "items.0", same("notification"), "items.0.text", "A word"), sees("notifications.getCounts", "{}", "notifications", plus(1)),
	}},
	"counts": {unseen: "it says what can be read anyway"},
	"online": {args: `{"user_id":$fan:1}`, see: []sight{
		sees("chats.list", `{"filter":"online"}`, "items[id=$fan:1]", some), sees("users.get", fan1, "lastSeenAt", "$.lastSeenAt"), answers("online", true),
	}},
	"toast":   {unseen: "it is not kept"},
	"unknown": {unseen: "nobody knows what it means"},
}

// What the event counts says is what a read says.
func TestTheCountsOfAnEventAreThoseOfARead(t *testing.T) {
	t.Parallel()
	s := newRig(t).stage()
	counts := s.order("counts", "")
	for _, read := range []string{"me.getCounts", "chats.getUnreadCounts", "notifications.getCounts"} {
		for _, field := range strings.Fields("chats priorityChats notifications tips queue") {
			if is, told := at(s.read(read, "{}"), field), at(counts, field); is != told {
				t.Errorf("%s: %s is %v, the event told %v", read, field, is, told)
			}
		}
	}
}
