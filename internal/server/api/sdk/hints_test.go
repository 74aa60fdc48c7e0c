package sdk_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/server/api/sdk"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

var update = flag.Bool("update", false, "update testdata/harmless.txt")

// TestWritesOfferedAsHarmless compares the writes that language models may use without asking with a reviewed list. A
// method that moves money, or that other people see, must not be on it.
func TestWritesOfferedAsHarmless(t *testing.T) {
	t.Parallel()
	cat, err := catalog.Sandbox()
	must.OK(t, err)
	hints, err := sdk.Hints(cat.Methods())
	must.OK(t, err)
	var harmless strings.Builder
	for _, hint := range hints {
		switch {
		case hint.ReadOnly && hint.Destructive:
			t.Errorf("%s is offered as a read that is destructive", hint.Title)
		case !hint.ReadOnly && !hint.Destructive:
			harmless.WriteString(hint.Title + "\n")
		}
	}
	for _, title := range []string{"massMessages.send", "payouts.request", "messages.send", "posts.create", "settings.setSubscriptionPrice"} {
		if strings.Contains("\n"+harmless.String(), "\n"+title+"\n") {
			t.Errorf("%s is offered as harmless", title)
		}
	}
	const file = "testdata/harmless.txt"
	if *update {
		must.OK(t, os.WriteFile(file, []byte(harmless.String()), 0o600))
	}
	want, err := os.ReadFile(file)
	must.OK(t, err)
	if harmless.String() != string(want) {
		t.Errorf("the writes offered as harmless differ from %s; review the difference, then run with -update:\n%s", file, harmless.String())
	}
}
