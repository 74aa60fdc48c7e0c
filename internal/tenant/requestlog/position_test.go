package requestlog_test

import (
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
)

// FuzzParsePosition checks that any text is either rejected or parsed into a position that survives a round trip.
func FuzzParsePosition(f *testing.F) {
	f.Add(requestlog.Position{At: noon, Request: id.New[id.Request]()}.String())
	f.Add(requestlog.Position{At: time.UnixMicro(1), Request: "a:b"}.String())
	f.Add("MS4x")
	f.Add("LTEuYQ")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := requestlog.ParsePosition(text)
		if !ok {
			return
		}
		again, ok := requestlog.ParsePosition(p.String())
		if !ok || !again.At.Equal(p.At) || again.Request != p.Request {
			t.Errorf("%q is %v and then %v", text, p, again)
		}
		if p.At.Year() > 9999 || p.At.Before(time.Unix(0, 0)) || p.Request == "" {
			t.Errorf("%q is %v", text, p)
		}
	})
}
