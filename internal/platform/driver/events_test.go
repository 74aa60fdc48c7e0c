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
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// eventValidator validates the data of events against the schemas of their kinds.
type eventValidator map[string]*jsonschema.Schema

func newEventValidator(t *testing.T, c *catalog.Catalog) eventValidator {
	t.Helper()
	types, data := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for _, one := range c.Types() {
		types[one.Name] = one.Schema
	}
	for _, kind := range c.Events() {
		data[kind.Kind] = kind.Schema()
	}
	text, err := json.Marshal(map[string]any{"types": types, "data": data})
	must.OK(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	must.OK(t, err)
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	must.OK(t, compiler.AddResource("catalog.json", document))
	j := eventValidator{}
	for _, kind := range c.Events() {
		if j[kind.Kind], err = compiler.Compile("catalog.json#/data/" + kind.Kind); err != nil {
			t.Fatalf("%s: %v", kind.Kind, err)
		}
	}
	return j
}

func (j eventValidator) check(t *testing.T, e *catalog.Event) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(e.Data))
	if err != nil {
		t.Fatalf("the data of %s is not JSON: %v", e.Kind, err)
	}
	if err := j[e.Kind].Validate(value); err != nil {
		t.Errorf("%s: %v\n%.400s", e.Kind, err, e.Data)
	}
}

// Each kind of event, triggered without arguments, arrives on the socket with its class and satisfies its schema.
// Durable events, and only those, can be listed afterwards.
func TestEveryKindOfEventSatisfiesItsSchema(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	j := newEventValidator(t, r.catalog)
	if n := len(r.catalog.Events()); n != 54 {
		t.Errorf("the catalog has %d kinds of platform events, want 54", n)
	}
	for _, kind := range r.catalog.Events() {
		t.Run(kind.Kind, func(t *testing.T) {
			t.Parallel()
			s := r.forTest(t).newEffectFixture()
			before := s.since("")
			last := ""
			if len(before) > 0 {
				last = before[len(before)-1].UpstreamID
			}
			s.trigger(kind.Kind, "")
			e := s.events[len(s.events)-1]
			if e.Class != kind.Class || e.UpstreamID == "" || time.Since(e.At).Abs() > time.Minute {
				t.Errorf("arrived as %s, id %q, at %s; want %s now", e.Class, e.UpstreamID, e.At, kind.Class)
			}
			kept := s.since(last)
			// Other events may come with it, such as the transaction of a tip. Validate them as well.
			for _, one := range slices.Concat(s.events, kept) {
				j.check(t, &one)
			}
			at := slices.IndexFunc(kept, func(one catalog.Event) bool { return one.UpstreamID == e.UpstreamID })
			switch {
			case (at >= 0) != (kind.Class == catalog.Durable):
				t.Errorf("a %s event was stored: %t", kind.Class, at >= 0)
			case at >= 0 && (kept[at].Kind != e.Kind || !kept[at].At.Equal(e.At) || !bytes.Equal(kept[at].Data, e.Data)):
				t.Errorf("it was stored differently: %s %s\n%s", kept[at].Kind, kept[at].Data, e.Data)
			}
		})
	}
}

// since lists all events after the one with an id.
func (s *effectFixture) since(after string) []catalog.Event {
	s.t.Helper()
	var all []catalog.Event
	for more := true; more; {
		missed, err := s.driver.Since(s.t.Context(), via("us"), s.session, after)
		if err != nil || missed.Skipped > 0 {
			s.t.Fatalf("%d frames were not decoded, %v", missed.Skipped, err)
		}
		all, more, after = append(all, missed.Events...), missed.More, missed.Last
	}
	return all
}

// Events describe real changes: reads show them, except where an entry says why none can.
func TestEveryKindOfEventIsSeenByAReadAfterwards(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for _, kind := range r.catalog.Events() {
		one, known := eventEffects[kind.Kind]
		if reads := slices.ContainsFunc(one.see, func(s observation) bool { return s.read != "" }); !known || reads == (one.unseen != "") {
			t.Errorf("%s: an effect needs either a read that shows it or a reason why there is none", kind.Kind)
		}
		if one.unseen != "" {
			continue
		}
		t.Run(kind.Kind, func(t *testing.T) {
			t.Parallel()
			r.forTest(t).newEffectFixture().run(t, "!"+kind.Kind, &one)
		})
	}
}

const (
	tipsOf1  = `{"userId":"$fan:1","type":"tip"}`
	allTimes = `{"from":"2020-01-01","to":"2036-12-31","kind":"new"}`
	live     = `{"streamId":"$stream:9"}`
)

// eventEffects are the effects of events that the sandbox generates. args are those of POST /control/happen. $.
// refers to the event's data.
var eventEffects = effects{
	"message": {args: `{"user_id":$fan:1,"text":"Hello you"}`, see: []observation{
		shows("messages.list", chat1, "items[id=$.message.id]", sameAs("message"), "items[id=$.message.id].text", "Hello you", "items[id=$.message.id].fromUserId", "$fan:1"),
		shows("chats.get", chat1, "unreadCount", plus(1), "lastMessage.id", "$.message.id"),
		shows("chats.getUnreadCounts", "{}", "chats", plus(1)),
		returns("chatId", "$fan:1", "fromUser.id", "$fan:1", "message.text", "Hello you"),
	}},
	"messageSent": {args: `{"user_id":$fan:1,"text":"By phone","amount":3}`, see: []observation{
		shows("messages.list", chat1, "items[id=$.message.id]", sameAs("message"), "items[id=$.message.id].text", "By phone", "items[id=$.message.id].priceCents", 300, "items[id=$.message.id].fromUserId", "$me"),
		returns("chatId", "$fan:1", "origin", "native"),
	}},
	"messageRead": {unseen: "the catalog's Chat does not show what the fan has read"},
	"messageDeleted": {first: []step{{do: "!message", args: `{"user_id":$fan:1}`}}, args: `{"ref_id":$1.message.id}`, see: []observation{
		notFound("messages.get", `{"chatId":"$fan:1","messageId":"$1.message.id"}`),
		shows("chats.get", chat1, "unreadCount", plus(-1)),
		returns("messageId", "$1.message.id", "by", "fan"),
	}},
	"messageLiked": {first: written, args: `{"ref_id":$1.id}`, see: []observation{
		shows("notifications.list", `{"type":"likes"}`, "items[refId=$1.id].user.id", "$fan:1"),
		returns("messageId", "$1.id", "user.id", "$fan:1"),
	}},
	"messageUnliked": {unseen: "the catalog's Message shows the creator's own like only, and a withdrawn like causes no notification"},
	"messagePurchased": {first: []step{{do: "messages.send", args: `{"chatId":"$fan:1","text":"For sale","priceCents":1250}`}}, args: `{"ref_id":$1.id}`, see: []observation{
		shows("messages.get", `{"chatId":"$fan:1","messageId":"$1.id"}`, "isLocked", false, "isOpened", true),
		shows("messages.listBuyers", `{"messageId":"$1.id"}`, "items.0.user.id", "$fan:1", "items.0.priceCents", 1250),
		shows("fans.getSpend", fan1, "messagesCents", plus(1250), "totalCents", plus(1250)),
		shows("earnings.listTransactions", `{"userId":"$fan:1"}`, "items[id=$.transactionId].grossCents", 1250, "items[id=$.transactionId].netCents", 1000, "items[id=$.transactionId].type", "message"),
		returns("priceCents", 1250, "netCents", 1000),
	}},
	"chatRead": {first: []step{{do: "!message", args: `{"user_id":$fan:1}`}}, args: `{"user_id":$fan:1}`, see: []observation{
		shows("chats.get", chat1, "unreadCount", 0), returns("chatId", "$fan:1", "all", false),
	}},
	"typing": {unseen: "it is not stored"},
	"subscribed": {see: []observation{
		shows("fans.get", `{"userId":"$.user.id"}`, "status", "active", "expiresAt", "$.expiresAt", "totalSpentCents", 999),
		shows("fans.list", `{"limit":1}`, "items.0.user.id", "$.user.id"),
		shows("fans.listLatest", `{"kind":"new","limit":1}`, "items.0.user.id", "$.user.id"),
		shows("me.get", "{}", "fansCount", plus(1)),
		shows("lists.get", `{"listId":"$list:1"}`, "usersCount", plus(1)),
		shows("statistics.subscribers", allTimes, "total", plus(1)),
		shows("earnings.listTransactions", `{"type":"subscription","limit":1}`, "items.0.user.id", "$.user.id", "items.0.grossCents", still{999}),
		returns("priceCents", 999, "kind", "paid", "months", 1),
	}},
	"resubscribed": {args: `{"user_id":$fan:8}`, see: []observation{
		shows("fans.get", `{"userId":"$fan:8"}`, "status", "active", "expiresAt", "$.expiresAt"),
		shows("me.get", "{}", "fansCount", plus(1)),
		shows("fans.getSubscriptionHistory", `{"userId":"$fan:8"}`, "items.#", plus(1)),
	}},
	"subscriptionRenewed": {args: `{"user_id":$fan:1}`, see: []observation{
		shows("fans.get", fan1, "expiresAt", later(30*day), "totalSpentCents", plus(999)),
		shows("fans.getSubscriptionHistory", fan1, "items.#", plus(1)),
	}},
	"subscriptionExpired": {args: `{"user_id":$fan:1}`, see: []observation{
		shows("fans.get", fan1, "status", "expired", "expiresAt", present),
		shows("me.get", "{}", "fansCount", plus(-1)),
		shows("lists.get", `{"listId":"$list:2"}`, "usersCount", plus(1)),
	}},
	"autoRenewChanged": {args: `{"user_id":$fan:1}`, see: []observation{shows("fans.get", fan1, "autoRenew", present), returns("user.id", "$fan:1")}},
	"trialClaimed": {args: `{"ref_id":$trial:1,"user_id":$fan:2041}`, see: []observation{
		shows("trialLinks.get", trial1, "claims", plus(1), "subscribers", plus(1)),
		shows("trialLinks.listSubscribers", trial1, "items.0.user.id", "$fan:2041"),
		shows("fans.get", `{"userId":"$fan:2041"}`, "status", "active", "source.linkId", "$trial:1", "expiresAt", "$.expiresAt"),
		returns("linkId", "$trial:1", "days", 30),
	}},
	"linkClicked": {args: `{"ref_id":$tracking:1,"count":3}`, see: []observation{
		shows("trackingLinks.get", tracking1, "clicks", plus(3)), shows("trackingLinks.getStats", tracking1, "clicks", plus(3)),
	}},
	"tips": {args: `{"user_id":$fan:1,"amount":7.5,"text":"For the strings"}`, see: []observation{
		shows("earnings.listTransactions", tipsOf1, "items[id=$.id].grossCents", 750, "items[id=$.id].netCents", 600, "items[id=$.id].status", "pending"),
		shows("earnings.getBalance", "{}", wholeBalance, plus(600)),
		shows("fans.getSpend", fan1, "tipsCents", plus(750)),
		shows("messages.list", `{"chatId":"$fan:1","limit":1}`, "items.0.isTip", true, "items.0.tipCents", 750, "items.0.text", "For the strings"),
		shows("notifications.getCounts", "{}", "tips", plus(1)),
		returns("amountCents", 750, "netCents", 600, "target.kind", "profile", "message", "For the strings"),
	}},
	"transaction": {args: `{"amount":15}`, see: []observation{
		shows("earnings.getTransaction", `{"transactionId":"$.transaction.id"}`, "", sameAs("transaction"), "grossCents", 1500, "type", "referral"),
		shows("earnings.listReferrals", `{"limit":1}`, "items.0.transactionId", "$.transaction.id"),
		shows("earnings.getBalance", "{}", wholeBalance, plus(1200)),
	}},
	"chargeback": {first: []step{{do: "!tips", args: `{"user_id":$fan:1,"amount":7.5}`}}, args: `{"ref_id":$1.id}`, see: []observation{
		shows("earnings.getTransaction", `{"transactionId":"$1.id"}`, "status", "reversed"),
		shows("earnings.listChargebacks", `{"limit":1}`, "items.0", sameAs("chargeback"), "items.0.transactionId", "$1.id", "items.0.amountCents", 750),
		shows("earnings.getChargebackRatio", "{}", "count", plus(1)),
		shows("earnings.getBalance", "{}", wholeBalance, plus(-600)),
		shows("fans.getSpend", fan1, "tipsCents", plus(-750)),
		returns("chargeback.transactionId", "$1.id"),
	}},
	"payoutRequested": {args: `{"amount":50}`, see: []observation{
		shows("earnings.getBalance", "{}", wholeBalance, plus(-5000)),
		shows("payouts.list", "{}", "items[id=$.payout.id]", sameAs("payout"), "items[id=$.payout.id].status", "pending"),
	}},
	"payoutPaid": {first: []step{{do: "payouts.request", args: `{"amountCents":5000}`}}, args: `{"ref_id":$1.id}`, see: []observation{
		shows("payouts.list", "{}", "items[id=$1.id].status", "paid", "items[id=$1.id].paidAt", present, "items[id=$1.id]", sameAs("payout")),
		shows("earnings.getBalance", "{}", wholeBalance, still{plus(0)}),
	}},
	"payoutFailed": {first: []step{{do: "payouts.request", args: `{"amountCents":5000}`}}, args: `{"ref_id":$1.id,"reason":"No such bank."}`, see: []observation{
		shows("payouts.list", "{}", "items[id=$1.id].status", "failed", "items[id=$1.id]", sameAs("payout")),
		shows("earnings.getBalance", "{}", wholeBalance, plus(5000)),
		returns("reason", "No such bank."),
	}},
	"postPublished": {args: `{"text":"From the phone"}`, see: []observation{
		shows("posts.list", `{"limit":1}`, "items.0", sameAs("post"), "items.0.text", "From the phone"),
		shows("me.get", "{}", "postsCount", plus(1)),
	}},
	"postUpdated": {args: `{"ref_id":$post:120,"text":"Mended"}`, see: []observation{shows("posts.get", `{"postId":"$post:120"}`, "text", "Mended")}},
	"postDeleted": {args: `{"ref_id":$post:120}`, see: []observation{notFound("posts.get", `{"postId":"$post:120"}`)}},
	"postExpired": {args: `{"ref_id":$post:120}`, see: []observation{
		shows("posts.list", `{"state":"expired"}`, "items[id=$post:120]", present),
		shows("posts.list", published, "items[id=$post:120]", absent),
	}},
	"postLiked": {args: `{"ref_id":$post:120}`, see: []observation{
		shows("posts.get", `{"postId":"$post:120"}`, "likes", plus(1)),
		shows("posts.listLikers", `{"postId":"$post:120","limit":1}`, "items.0.id", "$.user.id"),
	}},
	"postCommented": {args: `{"ref_id":$post:120,"user_id":$fan:1,"text":"Lovely"}`, see: []observation{
		shows("comments.list", comments, "items[id=$.comment.id]", sameAs("comment"), "items[id=$.comment.id].text", "Lovely", "items[id=$.comment.id].author.id", "$fan:1"),
		shows("posts.get", comments, "comments", plus(1)),
		shows("notifications.list", `{"type":"comments"}`, "items.#", plus(1), "items.0.refId", still{"$post:120"}),
	}},
	"postPurchased": {args: `{"ref_id":$post:120}`, see: []observation{
		shows("posts.listBuyers", `{"postId":"$post:120","limit":1}`, "items.0.user.id", "$.user.id"),
		shows("posts.getStats", `{"postId":"$post:120"}`, "purchases", plus(1), "purchasesCents", plus(2000)),
		shows("earnings.getTransaction", `{"transactionId":"$.transactionId"}`, "type", "post", "refId", "$post:120", "grossCents", 2000),
	}},
	"postFundraisingUpdated": {args: `{"ref_id":$post:113,"amount":20}`, see: []observation{
		shows("posts.get", `{"postId":"$post:113"}`, "fundraising.progressCents", plus(2000), "tipsCents", plus(2000)),
		returns("postId", "$post:113"),
	}},
	"mention": {args: `{"user_id":$fan:2003}`, see: []observation{
		shows("posts.listByUser", `{"userId":"$fan:2003"}`, "items[id=$.refId].authorId", "$fan:2003"),
		shows("notifications.list", `{"type":"mentions","limit":1}`, "items.0.refId", "$.refId"),
	}},
	"storyPublished": {args: `{"text":"Morning"}`, see: []observation{
		shows("stories.listActive", "{}", "items[id=$.story.id]", sameAs("story"), "items[id=$.story.id].text", "Morning"),
	}},
	"storyExpired": {first: []step{{do: "stories.create", args: story1}}, args: `{"ref_id":$1.id}`, see: []observation{
		shows("stories.listActive", "{}", "items[id=$1.id]", absent), shows("stories.listArchive", "{}", "items[id=$1.id]", present),
	}},
	"storyViewed": {first: []step{{do: "stories.create", args: story1}}, args: `{"ref_id":$1.id,"count":2}`, see: []observation{
		shows("stories.get", `{"storyId":"$1.id"}`, "views", 2), shows("stories.listViewers", `{"storyId":"$1.id"}`, "items.#", 2),
		shows("stories.getStats", `{"storyId":"$1.id"}`, "views", 2), returns("views", 2),
	}},
	"stream": {args: `{"text":"Tomorrow"}`, see: []observation{
		shows("streams.list", `{"state":"scheduled"}`, "items[id=$.stream.id]", sameAs("stream"), "items[id=$.stream.id].title", "Tomorrow"),
		shows("queue.list", span, "items[refId=$.stream.id].kind", "stream"),
	}},
	"streamStarted": {args: `{"ref_id":$stream:7}`, see: []observation{shows("streams.get", `{"streamId":"$stream:7"}`, "", sameAs("stream"), "state", "live", "startedAt", present)}},
	"streamStopped": {args: `{"ref_id":$stream:9}`, see: []observation{shows("streams.get", live, "", sameAs("stream"), "state", "ended", "endedAt", present)}},
	"streamUpdated": {args: `{"ref_id":$stream:9,"text":"Requests"}`, see: []observation{shows("streams.get", live, "", sameAs("stream"), "title", "Requests")}},
	"streamComment": {args: `{"ref_id":$stream:9,"text":"Hi!"}`, see: []observation{
		shows("streams.listComments", live, "items[id=$.comment.id]", sameAs("comment"), "items[id=$.comment.id].text", "Hi!"), shows("streams.getStats", live, "comments", plus(1)),
	}},
	"streamViewers": {args: `{"ref_id":$stream:9,"count":4}`, see: []observation{shows("streams.get", live, "viewers", plus(4)), returns("joined.id", present)}},
	"streamLiked":   {args: `{"ref_id":$stream:9,"count":4}`, see: []observation{shows("streams.get", live, "likes", plus(4))}},
	"massMessageSent": {args: `{"ref_id":$mass:25}`, see: []observation{
		shows("massMessages.get", `{"massMessageId":"$mass:25"}`, "", sameAs("massMessage"), "state", "sent", "sentAt", present), shows("queue.list", span, "items[refId=$mass:25]", absent),
	}},
	"queuePublished": {args: `{"ref_id":$post:121}`, see: []observation{
		shows("queue.list", span, "items[id=$post:121]", absent), shows("posts.get", `{"postId":"$post:121"}`, "publishedAt", present),
	}},
	"queueFailed": {args: `{"ref_id":$post:121,"reason":"Too large."}`, see: []observation{
		shows("queue.list", span, "items[id=$post:121]", absent), shows("drafts.get", `{"kind":"post","draftId":"$post:121"}`, "id", "$post:121"),
		returns("error", "Too large.", "item.state", "failed"),
	}},
	"mediaReady": {args: `{"text":"beach.jpg"}`, see: []observation{
		shows("vault.list", `{"query":"beach.jpg"}`, "items[id=$.media.id]", sameAs("media"), "items[id=$.media.id].state", "ready"), shows("uploads.get", `{"uploadId":"$.uploadId"}`, "mediaId", "$.media.id"),
	}},
	"mediaFailed": {args: `{"reason":"Broken."}`, see: []observation{
		shows("vault.get", `{"mediaId":"$.media.id"}`, "", sameAs("media"), "state", "failed"), shows("uploads.get", `{"uploadId":"$.uploadId"}`, "state", "failed", "error", "Broken."),
	}},
	"listUpdated": {first: twoOnAList, args: `{"ref_id":$1.id,"user_id":$fan:3}`, see: []observation{
		shows("lists.listUsers", `{"listId":"$1.id"}`, "items[id=$fan:3]", present), shows("lists.get", `{"listId":"$1.id"}`, "", sameAs("list"), "usersCount", 3), returns("added", 1),
	}},
	"profileUpdated":  {args: `{"text":"Away."}`, see: []observation{shows("me.get", "{}", "bio", "Away."), returns("changes", []string{"bio"})}},
	"settingsChanged": {args: `{"text":"Faro"}`, see: []observation{shows("settings.get", "{}", "location", "Faro"), returns("changes", []string{"location"})}},
	"notification": {args: `{"text":"A word"}`, see: []observation{
		shows("notifications.list", `{"limit":1}`, "items.0", sameAs("notification"), "items.0.text", "A word"), shows("notifications.getCounts", "{}", "notifications", plus(1)),
	}},
	"counts": {unseen: "it repeats what reads return anyway"},
	"online": {args: `{"user_id":$fan:1}`, see: []observation{
		shows("chats.list", `{"filter":"online"}`, "items[id=$fan:1]", present), shows("users.get", fan1, "lastSeenAt", "$.lastSeenAt"), returns("online", true),
	}},
	"toast":   {unseen: "it is not stored"},
	"unknown": {unseen: "its meaning is not known"},
}

// The event counts has the same numbers as the reads.
func TestCountsEventAgreesWithReads(t *testing.T) {
	t.Parallel()
	s := newFixture(t).newEffectFixture()
	counts := s.trigger("counts", "")
	for _, read := range []string{"me.getCounts", "chats.getUnreadCounts", "notifications.getCounts"} {
		for _, field := range strings.Fields("chats priorityChats notifications tips queue") {
			if is, inEvent := at(s.read(read, "{}"), field), at(counts, field); is != inEvent {
				t.Errorf("%s: %s is %v, in the event %v", read, field, is, inEvent)
			}
		}
	}
}
