package account_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/quick"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// Short names, so that the list below reads like a table.
const (
	none = account.Unborn
	conn = account.Connecting
	actv = account.Active
	degr = account.Degraded
	reau = account.Reauthenticating
	reco = account.ReconnectRequired
	rest = account.Restricted
	paus = account.Paused
	gone = account.Disconnected
)

// edge is one line of the specification's table of states, written by hand as an independent copy of the machine.
type edge struct {
	from  account.State
	on    account.Trigger
	facts account.Facts
	to    account.State
	event string
}

var (
	was = account.Facts{WasActive: true}
	can = account.Facts{WasActive: true, CanReauth: true}
	die = account.Facts{WasActive: true, SessionDead: true}
)

var specified = []edge{
	{none, account.SignedIn, account.Facts{}, conn, ""},
	{conn, account.ProbePassed, account.Facts{}, actv, "account.connected"},
	{conn, account.ProbePassed, was, actv, "account.reconnected"},
	{conn, account.Failing, was, degr, "account.degraded"},
	{actv, account.Failing, was, degr, "account.degraded"},
	{degr, account.Recovered, was, actv, "account.recovered"},
	{conn, account.SessionLost, can, reau, "account.reauthenticating"},
	{actv, account.SessionLost, can, reau, "account.reauthenticating"},
	{degr, account.SessionLost, can, reau, "account.reauthenticating"},
	{conn, account.SessionLost, was, reco, "account.reconnect_required"},
	{actv, account.SessionLost, was, reco, "account.reconnect_required"},
	{degr, account.SessionLost, was, reco, "account.reconnect_required"},
	{conn, account.LoggedOut, can, reco, "account.reconnect_required"},
	{actv, account.LoggedOut, can, reco, "account.reconnect_required"},
	{degr, account.LoggedOut, can, reco, "account.reconnect_required"},
	{reau, account.SignInSucceeded, can, actv, "account.reconnected"},
	{reau, account.SignInFailed, can, reco, "account.reconnect_required"},
	{reau, account.Banned, can, rest, "account.restricted"},
	{actv, account.ReauthRequested, can, reau, "account.reauthenticating"},
	{degr, account.ReauthRequested, can, reau, "account.reauthenticating"},
	{reco, account.ReauthRequested, can, reau, "account.reauthenticating"},
	{actv, account.SignedIn, was, conn, ""},
	{degr, account.SignedIn, was, conn, ""},
	{reau, account.SignedIn, was, conn, ""},
	{reco, account.SignedIn, was, conn, ""},
	{rest, account.SignedIn, was, conn, ""},
	{conn, account.Banned, was, rest, "account.restricted"},
	{actv, account.Banned, was, rest, "account.restricted"},
	{degr, account.Banned, was, rest, "account.restricted"},
	{reco, account.Banned, was, rest, "account.restricted"},
	{rest, account.ProbePassed, was, actv, "account.recovered"},
	{rest, account.SessionLost, can, reco, "account.reconnect_required"},
	{conn, account.Pause, was, paus, "account.paused"},
	{actv, account.Pause, was, paus, "account.paused"},
	{degr, account.Pause, was, paus, "account.paused"},
	{reau, account.Pause, was, paus, "account.paused"},
	{reco, account.Pause, was, paus, "account.paused"},
	{rest, account.Pause, was, paus, "account.paused"},
	{paus, account.Resume, was, conn, "account.resumed"},
	{paus, account.Resume, die, reco, "account.resumed"},
	{conn, account.Disconnect, was, gone, "account.disconnected"},
	{actv, account.Disconnect, was, gone, "account.disconnected"},
	{degr, account.Disconnect, was, gone, "account.disconnected"},
	{reau, account.Disconnect, was, gone, "account.disconnected"},
	{reco, account.Disconnect, was, gone, "account.disconnected"},
	{rest, account.Disconnect, was, gone, "account.disconnected"},
	{paus, account.Disconnect, was, gone, "account.disconnected"},
}

func TestEveryEdgeOfTheContractIsInTheMachine(t *testing.T) {
	t.Parallel()
	for _, e := range specified {
		step, err := account.Next(e.from, e.on, e.facts)
		if err != nil || step.From != e.from || step.To != e.to || step.Kind() != e.event {
			t.Errorf("%s in %q: %+v with %q, %v; want %+v", e.on, e.from, step, step.Kind(), err, e)
		}
	}
}

var triggers = []account.Trigger{
	account.SignedIn, account.ProbePassed, account.Recovered, account.Failing, account.SessionLost, account.LoggedOut,
	account.ReauthRequested,
	account.SignInSucceeded, account.SignInFailed, account.Banned, account.Pause, account.Resume, account.Disconnect,
}

func allFacts() []account.Facts {
	var list []account.Facts
	for bits := range 8 {
		list = append(list, account.Facts{WasActive: bits&1 > 0, CanReauth: bits&2 > 0, SessionDead: bits&4 > 0})
	}
	return list
}

type pair struct{ from, to account.State }

// pairs returns all changes of state that the machine allows.
func pairs() map[pair]bool {
	found := map[pair]bool{}
	for _, from := range append(account.States(), none, gone) {
		for _, on := range triggers {
			for _, f := range allFacts() {
				if step, err := account.Next(from, on, f); err == nil && step.Changed() {
					found[pair{from, step.To}] = true
				}
			}
		}
	}
	return found
}

func TestMachineHasExactlyTheFortyOneEdgesOfTheContract(t *testing.T) {
	t.Parallel()
	listed := map[pair]bool{}
	for _, e := range specified {
		listed[pair{e.from, e.to}] = true
	}
	found := pairs()
	if len(found) != 41 || len(listed) != 41 {
		t.Fatalf("%d edges in the machine, %d in the specification", len(found), len(listed))
	}
	for p := range found {
		if !listed[p] {
			t.Errorf("%s -> %s is not in the specification", p.from, p.to)
		}
	}
}

func TestEveryLiveStateCanReturnToActiveAndNothingLeavesTheEnd(t *testing.T) {
	t.Parallel()
	found := pairs()
	reaches := map[account.State]bool{actv: true}
	for range account.States() {
		for p := range found {
			if reaches[p.to] {
				reaches[p.from] = true
			}
			if p.from == gone {
				t.Fatalf("%s -> %s", p.from, p.to)
			}
		}
	}
	for _, s := range account.States() {
		if !reaches[s] {
			t.Errorf("%s never returns to active", s)
		}
	}
}

// In every random history an account takes only listed edges, repeats write no event, a paused account
// leaves its state only by a resume or a disconnect, and a disconnected account stays disconnected.
func TestRandomHistoriesTakeListedEdgesOnly(t *testing.T) {
	t.Parallel()
	listed := pairs()
	facts := allFacts()
	history := func(seed uint64) bool {
		r := rand.New(rand.NewPCG(seed, 1))
		at := none
		for range 200 {
			on, f := triggers[r.IntN(len(triggers))], facts[r.IntN(len(facts))]
			step, err := account.Next(at, on, f)
			switch {
			case err != nil:
				if !errors.Is(err, account.ErrIllegal) {
					return false
				}
				continue
			case step.From != at, step.Changed() && !listed[pair{at, step.To}], !step.Changed() && step.Kind() != "":
				return false
			case at == paus && step.Changed() && on != account.Resume && on != account.Disconnect:
				return false
			case at == gone:
				return false
			}
			at = step.To
			if again, err := account.Next(at, on, f); err == nil && again.To == at && again.Kind() != "" {
				return false
			}
		}
		return true
	}
	must.OK(t, quick.Check(history, &quick.Config{MaxCount: 5000}))
}

// docs/accounts.md contains exactly the diagram that the table renders.
func TestDocumentHasTheCurrentDiagram(t *testing.T) {
	t.Parallel()
	root, err := testenv.Root()
	must.OK(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "accounts.md"))
	must.OK(t, err)
	want := "```mermaid\n" + account.Diagram() + "```\n"
	if strings.Count(string(text), "```mermaid") != 1 || !strings.Contains(string(text), want) {
		t.Fatalf("docs/accounts.md must contain exactly this diagram:\n%s", want)
	}
}
