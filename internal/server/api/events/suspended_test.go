package events_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// When an org is suspended, its open streams and waiting pulls end with the problem and send no further event.
func TestStreamsOfASuspendedOrgEndWithoutAnEvent(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	s, _ := r.open(t, path(r.mine), "mine")
	r.Add(r.org("mine"), string(r.mine), true, "message")
	if got := s.next(t); got.name != "message" {
		t.Fatalf("%+v", got)
	}
	suspended := func(context.Context, id.Org) error { return problem.OrgSuspended.New("The organisation is suspended.") }
	r.permit.Store(&suspended)
	r.Add(r.org("mine"), string(r.mine), true, "message")
	if got := s.next(t); got.name != "problem" || !strings.Contains(got.data, "org-suspended") {
		t.Errorf("%+v", got)
	}
	for _, wait := range []string{"", "&wait=1"} {
		for _, after := range []string{"00000000000000", "00000000000002"} {
			got := r.call(t, "GET", path(r.mine)+"?after="+after+wait, "mine", "Accept", "application/json")
			if got.status != 403 || !strings.Contains(got.body, "org-suspended") {
				t.Errorf("%+v", got)
			}
		}
	}
}
