package apikey_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

var methods = []apikey.Method{
	{"sandbox", "chats", "list", false}, {"sandbox", "chats", "get", false}, {"sandbox", "messages", "send", false},
	{"sandbox", "messages", "list", false}, {"sandbox", "payouts", "request", true}, {"sandbox", "payouts", "list", false},
	{"sandbox", "users", "me", false}, {"sandbox", "statements", "get", true},
}

func allow(lists ...[]string) *apikey.Allow {
	return &apikey.Allow{Methods: apikey.ParseStored(lists)}
}

// A list allows what at least one of its patterns allows and none denies. A list that only denies allows the rest.
func TestMayCall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lists [][]string
		want  string
	}{
		{nil, "chats.list chats.get messages.send messages.list payouts.request payouts.list users.me statements.get"},
		{[][]string{{"*"}}, "chats.list chats.get messages.send messages.list payouts.request payouts.list users.me statements.get"},
		{[][]string{{"chats.*"}}, "chats.list chats.get"},
		{[][]string{{"chats.get", "messages.send"}}, "chats.get messages.send"},
		{[][]string{{"!payouts.*"}}, "chats.list chats.get messages.send messages.list users.me statements.get"},
		{[][]string{{"!sensitive"}}, "chats.list chats.get messages.send messages.list payouts.list users.me"},
		{[][]string{{"sensitive"}}, "payouts.request statements.get"},
		{[][]string{{"payouts.*", "!sensitive"}}, "payouts.list"},
		// A deny wins whatever the order.
		{[][]string{{"!payouts.request", "payouts.*", "payouts.request"}}, "payouts.list"},
		{[][]string{{"chats.*", "!*"}}, ""},
		{[][]string{{"!messages.send", "!chats.*", "!sensitive"}}, "messages.list payouts.list users.me"},
		// Every list must allow.
		{[][]string{{"chats.*", "messages.*"}, {"*.list"}}, ""},
		{[][]string{{"chats.*", "messages.*"}, {"messages.*", "payouts.*"}}, "messages.send messages.list"},
		{[][]string{{"chats.*"}, {"!chats.get"}}, "chats.list"},
		{[][]string{{"chats.*"}, {"payouts.*"}}, ""},
		// A pattern of one platform matches nothing on another.
		{[][]string{{"sandbox:chats.*"}}, "chats.list chats.get"},
		{[][]string{{"ghost:chats.*"}}, ""},
		{[][]string{{"chats.*", "ghost:*"}}, "chats.list chats.get"},
		{[][]string{{"!ghost:*", "!sandbox:sensitive"}}, "chats.list chats.get messages.send messages.list payouts.list users.me"},
		// A list that is not understood allows nothing.
		{[][]string{{"*"}, {"Ghost:*"}}, ""},
		{[][]string{{"*"}, {"chats.*", "if(hour > 9)"}}, ""},
	} {
		a, got := allow(c.lists...), []string{}
		for _, m := range methods {
			if a.MayCall(m) {
				got = append(got, m.Resource+"."+m.Name)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v allows %v, want %s", c.lists, got, c.want)
		}
	}
}

// MayCall and MayUse run on every call.
func TestMayCallDoesNotAllocate(t *testing.T) { //nolint:paralleltest // it counts the allocations of the whole process
	a := allow([]string{"chats.*", "messages.*", "!sensitive"}, []string{"!payouts.*"})
	a.Accounts = []id.Account{id.New[id.Account](), id.New[id.Account]()}
	if n := testing.AllocsPerRun(100, func() { a.MayCall(apikey.Method{Resource: "messages", Name: "send"}); a.MayUse(a.Accounts[1]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMayCall(b *testing.B) {
	a := allow([]string{"chats.*", "messages.*", "users.get", "!payouts.*", "!sensitive"})
	b.ReportAllocs()
	for b.Loop() {
		a.MayCall(apikey.Method{Resource: "messages", Name: "send"})
	}
}

// Mint reports the position of an invalid pattern. A valid pattern keeps its text.
func TestPatterns(t *testing.T) {
	t.Parallel()
	good := []string{"*", "!*", "sensitive", "!sensitive", "chats.*", "!chats.*", "chats.list", "!lists.addUsers2"}
	if own, _ := allow(good).Lists(); !slices.Equal(own, good) {
		t.Errorf("%v became %v", good, own)
	}
	f := newFixture(t)
	_, first := f.create(t, nil)
	caller, _ := f.verify(t, first)
	for _, bad := range []string{
		"", "!", "chats", "chats.", ".list", "*.list", "*.*", "chats.*.*", "chats.list.all", "!!chats.*", " chats.*", "chats.* ", "Chats.*",
		"chats.l*", "chats.list\n", "chats/list", "SENSITIVE", "sensitive.*x", "a." + strings.Repeat("x", 41), "chats.lïst",
	} {
		_, _, err := f.keys.Mint(t.Context(), caller, by, apikey.Draft{Label: "x", Methods: []string{"chats.*", bad}})
		p := problem.Of(err)
		if err == nil || p.Kind.Code != "validation-failed" || p.Fields[0].Pointer != "/methods/1" || p.Fields[0].Code != "pattern" {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for n, ok := range map[int]bool{0: false, 64: true, 65: false} {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprint("chats.m", i)
		}
		if _, _, err := f.keys.Mint(t.Context(), caller, by, apikey.Draft{Label: "x", Methods: list}); (err == nil) != ok {
			t.Errorf("%d patterns: %v", n, err)
		}
	}
	for n, ok := range map[int]bool{0: false, 100: true, 101: false} {
		list := make([]id.Account, n)
		for i := range list {
			list[i] = id.New[id.Account]()
		}
		if _, _, err := f.keys.Mint(t.Context(), caller, by, apikey.Draft{Label: "x", Accounts: list}); (err == nil) != ok {
			t.Errorf("%d accounts: %v", n, err)
		}
	}
}

// A key is read back with its limits. Every key that it mints inherits them, over several generations. A key cannot
// grant an account that it may not use.
func TestLimitsAreInherited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, first := f.create(t, nil)
	caller, _ := f.verify(t, first)
	mine, yours := id.New[id.Account](), id.New[id.Account]()
	lists := [][]string{{"chats.*", "messages.*"}, {"!sensitive"}, {"messages.*"}}
	for i, list := range lists {
		draft := apikey.Draft{Label: "x", Methods: list}
		if i == 0 {
			draft.Accounts = []id.Account{yours, mine, yours}
		}
		minted, plain, err := f.keys.Mint(t.Context(), caller, by, draft)
		must.OK(t, err)
		caller, _ = f.verify(t, plain.Reveal())
		own, inherited := caller.Key.Allow.Lists()
		if !slices.Equal(own, list) || fmt.Sprint(inherited) != fmt.Sprint(lists[:i]) || !slices.Equal(caller.Key.Allow.Accounts, []id.Account{mine, yours}) {
			t.Errorf("%d: %v, inherited %v, %v", i, own, inherited, caller.Key.Allow.Accounts)
		}
		if fmt.Sprint(minted.Allow) != fmt.Sprint(caller.Key.Allow) {
			t.Errorf("%d: minted with %v, read as %v", i, minted.Allow, caller.Key.Allow)
		}
	}
	narrower, _, err := f.keys.Mint(t.Context(), caller, by, apikey.Draft{Label: "x", Accounts: []id.Account{mine}})
	if err != nil || !slices.Equal(narrower.Allow.Accounts, []id.Account{mine}) || len(narrower.Allow.Methods) != 3 {
		t.Errorf("%+v %v", narrower.Allow, err)
	}
	theirs := id.New[id.Account]()
	_, _, err = f.keys.Mint(t.Context(), caller, by, apikey.Draft{Label: "x", Accounts: []id.Account{mine, theirs}})
	if p := problem.Of(err); err == nil || p.Kind.Code != "scope-escalation" {
		t.Errorf("an account that the caller may not use: %v", err)
	}
	keys, err := f.keys.List(t.Context(), caller.Org.ID)
	if err != nil || keys[0].Allow.Methods != nil || keys[0].Allow.Accounts != nil || len(keys[3].Allow.Methods) != 3 {
		t.Errorf("%+v %v", keys, err)
	}
}

// A key can inherit at most eight lists. A repeated list does not count again.
func TestInheritanceIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, key := f.create(t, nil)
	for i := range 9 {
		caller, _ := f.verify(t, key)
		for range 2 {
			_, plain, err := f.keys.Mint(t.Context(), caller, by, apikey.Draft{Label: "x", Methods: []string{fmt.Sprint("!chats.m", i)}})
			if i == 8 {
				if p := problem.Of(err); err == nil || p.Kind.Code != "validation-failed" || p.Fields[0].Pointer != "/methods" {
					t.Errorf("the ninth list: %v", err)
				}
				continue
			}
			must.OK(t, err)
			key = plain.Reveal()
			caller, _ = f.verify(t, key)
			if len(caller.Key.Allow.Methods) != i+1 {
				t.Errorf("%d lists after %d", len(caller.Key.Allow.Methods), i+1)
			}
		}
	}
}

// A minted key may do exactly what both its parent and its own lists allow, for random lists.
func TestMintedKeyHasNoMoreThanItsParent(t *testing.T) {
	t.Parallel()
	words := []string{"*", "!*", "sensitive", "!sensitive", "chats.*", "!chats.*", "messages.send", "!messages.send", "payouts.*", "!payouts.request", "users.me", "statements.*"}
	accounts := []id.Account{"acct_1", "acct_2", "acct_3"}
	random := rand.New(rand.NewPCG(1, 2))
	randomList := func() []string {
		if random.IntN(4) == 0 {
			return nil
		}
		list := make([]string, 1+random.IntN(4))
		for i := range list {
			list[i] = words[random.IntN(len(words))]
		}
		return list
	}
	refused := 0
	for range 20_000 {
		parent := apikey.Allow{}
		for range random.IntN(3) {
			parent, _ = apikey.Narrow(&parent, randomList(), nil)
		}
		if random.IntN(2) == 0 {
			parent.Accounts = accounts[:1+random.IntN(2)]
		}
		var given []id.Account
		if random.IntN(2) == 0 {
			given = []id.Account{accounts[random.IntN(3)]}
		}
		list := randomList()
		child, err := apikey.Narrow(&parent, list, given)
		if err != nil {
			refused++
			if given == nil || parent.MayUse(given[0]) {
				t.Fatalf("%v with %v and %v: %v", parent, list, given, err)
			}
			continue
		}
		own := allow(list)
		if list == nil {
			own = allow()
		}
		for _, m := range methods {
			want := parent.MayCall(m) && own.MayCall(m)
			if got := child.MayCall(m); got != want {
				t.Fatalf("%v with %v may call %s.%s: %v", parent, list, m.Resource, m.Name, got)
			}
		}
		for _, one := range accounts {
			if want := parent.MayUse(one) && (given == nil || slices.Contains(given, one)); child.MayUse(one) != want {
				t.Fatalf("%v with %v may use %s: %v", parent.Accounts, given, one, !want)
			}
		}
	}
	if refused == 0 {
		t.Error("no mint was refused")
	}
}

// The audit log has the limits of a minted key.
func TestLimitsAreAudited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	o, first := f.create(t, nil)
	caller, _ := f.verify(t, first)
	at := id.New[id.Account]()
	if _, _, err := f.keys.Mint(t.Context(), caller, by, apikey.Draft{Label: "x", Methods: []string{"chats.*"}, Accounts: []id.Account{at}}); err != nil {
		t.Fatal(err)
	}
	entries, err := f.keys.Deps().Audit.Choose(t.Context(), o.ID, audit.Filter{}, 0, 1)
	must.OK(t, err)
	var changes struct {
		Methods    struct{ To []string }
		AccountIDs struct{ To []id.Account }
	}
	if err := json.Unmarshal(entries[0].Changes, &changes); err != nil || !slices.Equal(changes.Methods.To, []string{"chats.*"}) || !slices.Equal(changes.AccountIDs.To, []id.Account{at}) {
		t.Errorf("%s %v", entries[0].Changes, err)
	}
}

// FuzzPattern checks that a valid pattern keeps its text and that an invalid one allows nothing.
func FuzzPattern(f *testing.F) {
	for _, seed := range []string{"chats.*", "!sensitive", "*", "a.b", "!!", "."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, ok := apikey.Named(text)
		own, _ := allow([]string{text}).Lists()
		if ok != (own[0] == text) && text != "!*" {
			t.Errorf("%q is read as %q", text, own[0])
		}
		if !ok && allow([]string{text}).MayCall(apikey.Method{Resource: "chats", Name: "list"}) {
			t.Errorf("%q is not a pattern but allows a call", text)
		}
	})
}
