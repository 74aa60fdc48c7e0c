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
