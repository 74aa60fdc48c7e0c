package publish_test

import (
	"testing"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/publish"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// Every happening works without parameters, can be repeated, and sends its frame.
func TestEverythingCanHappenAgainAndAgain(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := p.SignIn(login)
	for frame := range publish.Happenings() {
		for range 12 {
			p.Order(login, frame, fanaction.Input{})
			c.Frame(frame)
		}
	}
}
