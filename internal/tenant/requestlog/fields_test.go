package requestlog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
)

func TestFieldsKeepPointersAndCodesOnly(t *testing.T) {
	t.Parallel()
	wrong := problem.ValidationFailed.New("wrong").
		At("/scopes/0", "enum", "hunter2 is no scope").At("query/limit", "range", "hunter2").At("", "type", "hunter2").
		At("/metadata/my secret: hunter2", "unknown", "").At("/a/"+strings.Repeat("x", 65)+"/b", "length", "")
	got := requestlog.FieldsOf(wrong.Fields)
	want := []requestlog.Field{{"/scopes/0", "enum"}, {"query/limit", "range"}, {"", "type"}, {"/metadata/*", "unknown"}, {"/a/*/b", "length"}}
	if !slices.Equal(got.All(), want) {
		t.Errorf("%q; want %q", got.All(), want)
	}
	if strings.Contains(string(got), "hunter2") {
		t.Errorf("a value is kept: %q", got)
	}
	if none := requestlog.FieldsOf(nil); none != "" || none.All() == nil || len(none.All()) != 0 {
		t.Errorf("without fields: %q", none.All())
	}
}

func TestFieldsAreBounded(t *testing.T) {
	t.Parallel()
	wrong := problem.ValidationFailed.New("wrong")
	for i := range 1000 {
		wrong.At(fmt.Sprintf("/list/%d%s", i, strings.Repeat("/deeper", 100)), "type", "")
	}
	if got := requestlog.FieldsOf(wrong.Fields); len(got) > 4096 || len(got.All()) != 16 {
		t.Errorf("%d fields in %d bytes", len(got.All()), len(got))
	}
}

// Of a problem's members the log keeps numbers, names and lists of names. Texts, addresses and objects may have values
// of the request or secrets.
func TestMembersHaveNoValues(t *testing.T) {
	t.Parallel()
	p := problem.QuotaExceeded.New("for people").After(21).With("reason", "org_rpm").With("limit", 30).With("current", int64(31)).
		With("missingScope", "sdk:call").With("heldScopes", []string{"me:read", "usage:read"}).With("accountId", "acct_1").
		With("reconnect", map[string]string{"url": "https://secret.test"}).With("text", "Dear Ines").With("link", "https://secret.test/a").
		With("names", []string{"fine", "not fine"}).With("long", strings.Repeat("a", 65)).With("empty", "").With("many", make([]string, 99))
	got := requestlog.MembersOf(p)
	want := `{"accountId":"acct_1","current":31,"heldScopes":["me:read","usage:read"],"limit":30,"missingScope":"sdk:call","retryAfterSec":21}`
	if string(got) != want {
		t.Errorf("%s", got)
	}
	if got.RetryAfter() != 21 || len(got.All()) != 6 {
		t.Errorf("%d %v", got.RetryAfter(), got.All())
	}
	if none := requestlog.MembersOf(problem.Internal.New("x").With("detail2", "a b")); none != "" || none.RetryAfter() != 0 || len(none.All()) != 0 {
		t.Errorf("%q", none)
	}
}
