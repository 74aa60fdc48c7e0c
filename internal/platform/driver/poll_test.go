package driver_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// poll polls once and returns the events' ids.
func (r *ghostFixture) poll(s driver.Session, position string) (driver.Polled, []string) {
	r.t.Helper()
	p, err := r.driver.Poll(r.t.Context(), r.via(), s, position)
	must.OK(r.t, err)
	var ids []string
	for _, e := range p.Events {
		ids = append(ids, e.UpstreamID)
	}
	return p, ids
}

// pollAll polls every feed once, as a listener does.
func (r *ghostFixture) pollAll(s driver.Session, position string) (ids []string, next string) {
	r.t.Helper()
	r.clock.Advance(time.Hour)
	for {
		p, more := r.poll(s, position)
		ids, position = append(ids, more...), p.Position
		if !p.More && p.Wait > 0 { // no other feed is due
			return ids, position
		}
	}
}

// An account begins at the present: what happened before is no event, and everything after it is one.
func TestAPolledAccountBeginsAtThePresent(t *testing.T) {
	t.Parallel()
	r := newGhostFixture(t, "")
	s := r.session()
	r.ghost.happen("signup_event", time.Now().Add(-time.Hour))
	r.ghost.happen("signup_event", time.Now())
	position, answer, err := driver.Newest(t.Context(), r.driver, r.via(), s)
	must.OK(t, err)
	if position == "" || !answer.Session.Encode().Equal(s.Encode()) {
		t.Errorf("%q, %+v", position, answer)
	}
	now := time.Now()
	first := r.ghost.happen("signup_event", now.Add(-time.Minute)) // it was written late
	second := r.ghost.happen("login_event", now)
	ids, position := r.pollAll(s, position)
	if want := []string{"activity:signup_event:" + first, "activity:login_event:" + second}; !slices.Equal(ids, want) {
		t.Errorf("%v, want %v", ids, want)
	}
	if ids, _ := r.pollAll(s, position); len(ids) != 0 {
		t.Errorf("again: %v", ids)
	}
}

// The feeds take turns, none is asked more often than the manifest allows, and Wait says when one is due.
func TestFeedsTakeTurns(t *testing.T) {
	t.Parallel()
	r := newGhostFixture(t, "")
	s := r.session()
	start, _ := r.poll(s, "")
	if !start.Moved || start.Wait != 5*time.Second || len(start.Events) > 0 || start.Gap {
		t.Errorf("%+v", start)
	}
	position := start.Position
	r.ghost.mu.Lock()
	r.ghost.feeds = nil
	r.ghost.mu.Unlock()
	none, _ := r.poll(s, position)
	if none.Moved || none.Received != 0 || none.Position != position {
		t.Errorf("a poll before a feed is due: %+v", none)
	}
	for range 132 { // eleven minutes
		r.clock.Advance(5 * time.Second)
		for wait := time.Duration(0); wait == 0; { // several feeds are due at the same time
			p, _ := r.poll(s, position)
			if p.Moved || p.Wait > 5*time.Second {
				t.Errorf("%+v", p)
			}
			position, wait = p.Position, p.Wait
		}
	}
	r.ghost.mu.Lock()
	defer r.ghost.mu.Unlock()
	asked := map[string]int{}
	for _, name := range r.ghost.feeds {
		asked[name]++
	}
	want := map[string]int{"activity": 132, "mails": 1}
	if !maps.Equal(asked, want) {
		t.Errorf("in eleven minutes: %v", asked)
	}
}

// A response that is full is read in windows, each event once and from the oldest to the newest.
func TestFullFeedsAreReadInWindows(t *testing.T) {
	t.Parallel()
	r := newGhostFixture(t, "")
	s := r.session()
	start, _ := r.poll(s, "")
	begin := time.Now()
	var want []string
	for i := range 3500 {
		want = append(want, "activity:login_event:"+r.ghost.happen("login_event", begin.Add(time.Duration(i)*100*time.Millisecond)))
	}
	got, position := r.pollAll(s, start.Position)
	if !slices.Equal(got, want) {
		t.Errorf("%d events, want %d", len(got), len(want))
	}
	if again, _ := r.pollAll(s, position); len(again) != 0 {
		t.Errorf("%d events again", len(again))
	}
}

// A feed that the platform refuses does not keep the others from being asked. If it refuses all, the account has no
// position.
func TestARefusedFeedDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	r := newGhostFixture(t, "")
	s := r.session()
	refuse := func(status int, paths ...string) {
		r.ghost.mu.Lock()
		defer r.ghost.mu.Unlock()
		clear(r.ghost.refusing)
		for _, path := range paths {
			r.ghost.refusing[path] = status
		}
	}
	refuse(403, "/emails/", "/posts/")
	start, _ := r.poll(s, "")
	if start.Skipped != 3 {
		t.Errorf("%d feeds were refused", start.Skipped)
	}
	id := r.ghost.happen("login_event", time.Now())
	ids, position := r.pollAll(s, start.Position)
	if !slices.Equal(ids, []string{"activity:login_event:" + id}) {
		t.Errorf("%v", ids)
	}
	refuse(0)
	if ids, _ := r.pollAll(s, position); len(ids) != 0 {
		t.Errorf("%v", ids)
	}
	refuse(403, "/emails/", "/posts/", "/events/")
	_, err := r.driver.Poll(t.Context(), r.via(), s, "")
	wantRefusal(t, err, catalog.RefusedForbidden)
}

// A session that has ended is a refusal of the session, whichever feed is asked.
func TestPollsShowThatASessionEnded(t *testing.T) {
	t.Parallel()
	r := newGhostFixture(t, "")
	s := r.session()
	start, _ := r.poll(s, "")
	must.OK(t, r.driver.SignOut(t.Context(), r.via(), s))
	r.clock.Advance(time.Minute)
	p, err := r.driver.Poll(t.Context(), r.via(), s, start.Position)
	wantRefusal(t, err, catalog.RefusedSession)
	if p.Position != start.Position {
		t.Error("a failed poll moved the position")
	}
}

// A text that is no position starts again at the present, and says that events may be missing.
func TestATextThatIsNoPositionIsAGap(t *testing.T) {
	t.Parallel()
	r := newGhostFixture(t, "")
	s := r.session()
	for _, text := range []string{"12345", `{"feeds":{"activity":{"t":1,"a":1,"seen":"x"}}}`, `{"feeds":{"activity":{"t":1,"r":{"w":0}}}}`, "{}"} {
		p, ids := r.poll(s, text)
		if !p.Gap || len(ids) > 0 || p.Position == text {
			t.Errorf("%s: %+v", text, p)
		}
		if again, _ := r.poll(s, p.Position); again.Gap {
			t.Errorf("%s: the gap is reported again", text)
		}
	}
}

// A platform without polls has no position.
func TestAPlatformWithASocketIsNotPolled(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	if _, err := r.driver.Poll(t.Context(), via("us"), r.session(r.login("ok")), ""); !errors.Is(err, driver.ErrNoSocket) {
		t.Error(err)
	}
}
