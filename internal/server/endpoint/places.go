package endpoint

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// How much may be under way on one node. A request takes one of the node's places only once its body is there: until then it costs a
// connection and little else, and whoever sends it decides how long that takes.
const (
	// maxWorking bounds the requests that are worked on: beyond it all of them would only get slower. An org has at most half of the places.
	maxWorking       = 2000
	maxWorkingPerOrg = maxWorking / 2
	// maxBodiesPerOrg bounds the bodies of an org that are still arriving. A body of a caller in good order takes milliseconds.
	maxBodiesPerOrg = 200
	// maxBodiesPerSource is the same for one network, whatever orgs its keys are of. It is several orgs' worth, because all callers behind a
	// proxy that is not trusted look like one network.
	maxBodiesPerSource = 5 * maxBodiesPerOrg
)

// A body is given up when nothing of it comes for bodyStall, or when it takes longer than bodyAtMost in all.
const (
	bodyStall  = 3 * time.Second
	bodyAtMost = 10 * time.Second
)

// places counts what is under way. Its zero value is empty.
type places struct {
	mu       sync.Mutex
	working  int
	byOrg    map[id.Org]orgPlaces
	bySource map[string]int
}

type orgPlaces struct{ bodies, working int }

// change adds to what an org has, and forgets an org that has nothing. The lock is held.
func (p *places) change(org id.Org, bodies, working int) {
	now := p.byOrg[org]
	now.bodies += bodies
	now.working += working
	if now == (orgPlaces{}) {
		delete(p.byOrg, org)
		return
	}
	if p.byOrg == nil {
		p.byOrg = map[id.Org]orgPlaces{}
	}
	p.byOrg[org] = now
}

// startBody gives a body that is about to be read its place. endBody must follow unless it fails.
func (p *places) startBody(org id.Org, source string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.byOrg[org].bodies >= maxBodiesPerOrg:
		return tooMany("org_bodies", "of this organisation", maxBodiesPerOrg)
	case p.bySource[source] >= maxBodiesPerSource:
		return tooMany("source_bodies", "from this network", maxBodiesPerSource)
	}
	p.change(org, 1, 0)
	if p.bySource == nil {
		p.bySource = map[string]int{}
	}
	p.bySource[source]++
	return nil
}

func (p *places) endBody(org id.Org, source string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change(org, -1, 0)
	if p.bySource[source]--; p.bySource[source] == 0 {
		delete(p.bySource, source)
	}
}

// startWork gives a request one of the node's places. endWork must follow unless it fails.
func (p *places) startWork(org id.Org) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.working >= maxWorking:
		return problem.ServiceUnavailable.New("This server has more requests under way than it can take.").After(1)
	case org != "" && p.byOrg[org].working >= maxWorkingPerOrg:
		return problem.QuotaExceeded.Newf("The organisation has %d requests under way on this server.", maxWorkingPerOrg).After(1).
			With("reason", "org_concurrency").With("limit", maxWorkingPerOrg).With("current", maxWorkingPerOrg)
	}
	p.working++
	p.change(org, 0, 1)
	return nil
}

// resumeWork is startWork for a request that has waited outside, and that nothing may refuse any more.
func (p *places) resumeWork(org id.Org) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working++
	p.change(org, 0, 1)
}

func (p *places) endWork(org id.Org) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working--
	p.change(org, 0, -1)
}

func tooMany(reason, whose string, most int) error {
	return problem.QuotaExceeded.Newf("The bodies of %d requests %s are still arriving on this server. Send each body at once, as a whole.", most, whose).
		After(int(bodyStall/time.Second)).With("reason", reason).With("limit", most).With("current", most)
}

// startWork takes a place for a call; leave gives it back.
func (c *Call) startWork() error {
	if err := c.table.places.startWork(c.org()); err != nil {
		return err
	}
	c.working = true
	return nil
}

// resumeWork takes the place again that a call gave back to wait.
func (c *Call) resumeWork() {
	c.table.places.resumeWork(c.org())
	c.working = true
}

// leave gives back the place of a call that has one.
func (c *Call) leave() {
	if c.working {
		c.table.places.endWork(c.org())
		c.working = false
	}
}

// org is the caller's; empty for operators and for operations that need no key.
func (c *Call) org() id.Org {
	if p := c.Identity.Principal; p != nil {
		return p.Org.ID
	}
	return ""
}

// receiveBody reads the JSON body of a call, within its bounds of time and of what may arrive at once.
func (t *Table) receiveBody(w http.ResponseWriter, r *http.Request, call *Call) ([]byte, error) {
	org := call.org()
	if err := t.places.startBody(org, call.source); err != nil {
		t.limitRest(w)
		call.header.Set("Connection", "close") // otherwise the server waits for the body before it sends the answer
		return nil, err
	}
	defer t.places.endBody(org, call.source)
	r.Body = &steadyBody{ReadCloser: r.Body, control: http.NewResponseController(w), now: t.Now, end: t.Now().Add(bodyAtMost)}
	body, err := readJSON(w, r)
	switch {
	case err == nil:
		t.prolong(w, max(call.op.Timeout, typedTimeout)) // the time for the body was not the operation's
	case problem.Of(err).Kind.Code == problem.RequestTimeout.Code:
		call.header.Set("Connection", "close")
	}
	return body, err
}

// limitRest bounds how long the server waits for a body that nobody will read.
func (t *Table) limitRest(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(t.Now().Add(bodyStall)) // a writer without a connection has no limits
}

// steadyBody is a body that must keep coming.
type steadyBody struct {
	io.ReadCloser
	control *http.ResponseController
	now     func() time.Time
	end     time.Time
}

// Read waits for the next part of the body.
func (b *steadyBody) Read(p []byte) (int, error) {
	until := b.now().Add(bodyStall)
	if until.After(b.end) {
		until = b.end
	}
	_ = b.control.SetReadDeadline(until) // a writer without a connection has no limits
	return b.ReadCloser.Read(p)
}
