package egress

import (
	"net"
	"sync"
	"time"
)

// lineKey is whose a connection is and where it goes. Only calls with the same key ever share one.
type lineKey struct {
	isolation Isolation
	account   string
	proxy     *node
	address   string
	secure    bool
}

// line is a connection that one call at a time owns. No goroutine watches it: whoever uses it reads and writes itself.
type line struct {
	conn net.Conn
	key  lineKey
	// stop is abort: made once, so that a call does not make it.
	stop func()
	// late is what a missed deadline means.
	late error

	mu      sync.Mutex
	aborted bool

	// The pool's own.
	expires      time.Time
	below        *line // of the same key
	older, newer *line
}

func newLine(conn net.Conn, key lineKey) *line {
	l := &line{conn: conn, key: key}
	l.stop = l.abort
	return l
}

// longAgo ends reads and writes that are under way.
var longAgo = time.Unix(1, 0)

// arm sets when the connection gives up, and what that means then. total is for the whole call; zero is no bound.
func (l *line) arm(now time.Time, limit time.Duration, why error, total time.Time) {
	var until time.Time
	if limit > 0 {
		until = now.Add(limit)
	}
	if !total.IsZero() && (until.IsZero() || total.Before(until)) {
		until, why = total, ErrTooLong
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = why
	if !l.aborted {
		_ = l.conn.SetDeadline(until) // it fails on a closed connection only, which the next read tells
	}
}

// abort ends what is under way, for good.
func (l *line) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aborted = true
	_ = l.conn.SetDeadline(longAgo) // see arm
}

func (l *line) close() { _ = l.conn.Close() } // of no use any more, whatever it says

// lines are the idle connections of a node, by key and by age.
type lines struct {
	now func() time.Time
	// max bounds them all; the longest idle goes first.
	max int

	mu             sync.Mutex
	idle           map[lineKey]stack
	oldest, newest *line
	count          int
	timer          *time.Timer
}

// stack are the idle connections of one key, the last used on top.
type stack struct {
	top  *line
	size int
}

func newLines(limit int, now func() time.Time) *lines {
	return &lines{now: now, max: limit, idle: map[lineKey]stack{}}
}

// take gives the last used connection of a key, if there is one that has not expired.
func (p *lines) take(key lineKey) *line {
	p.mu.Lock()
	l := p.idle[key].top
	if l != nil {
		p.remove(l)
	}
	p.mu.Unlock()
	if l == nil || l.expires.After(p.now()) {
		return l
	}
	l.close()
	return p.take(key)
}

// put keeps a connection for a time.
func (p *lines) put(l *line, keep time.Duration) {
	l.expires = p.now().Add(keep)
	if out := p.add(l); out != nil {
		out.close()
	}
}

// add takes a connection in, and gives out the one that must go for it.
func (p *lines) add(l *line) (out *line) {
	limit := idlePerAccount
	if l.key.isolation == ByProxy {
		limit = idlePerProxy
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	same := p.idle[l.key]
	if same.size >= limit {
		return l
	}
	l.below, p.idle[l.key] = same.top, stack{l, same.size + 1}
	l.older, l.newer = p.newest, nil
	if p.newest != nil {
		p.newest.newer = l
	} else {
		p.oldest = l
	}
	p.newest = l
	p.count++
	switch {
	case p.count > p.max:
		out = p.oldest
		p.remove(out)
	case p.timer == nil:
		p.timer = time.AfterFunc(idleTimeout, p.sweep)
	case p.count == 1:
		p.timer.Reset(idleTimeout)
	}
	return out
}

// remove takes a connection out. The caller holds the lock.
func (p *lines) remove(l *line) {
	same := p.idle[l.key]
	if same.top == l {
		same.top = l.below
	} else {
		above := same.top
		for above.below != l {
			above = above.below
		}
		above.below = l.below
	}
	if same.size--; same.size == 0 {
		delete(p.idle, l.key)
	} else {
		p.idle[l.key] = same
	}
	if l.older == nil {
		p.oldest = l.newer
	} else {
		l.older.newer = l.newer
	}
	if l.newer == nil {
		p.newest = l.older
	} else {
		l.newer.older = l.older
	}
	l.below, l.older, l.newer = nil, nil, nil
	p.count--
}

// sweep closes what has expired, and comes back for the rest.
func (p *lines) sweep() {
	now := p.now()
	var gone []*line
	p.mu.Lock()
	for p.oldest != nil && !p.oldest.expires.After(now) {
		l := p.oldest
		p.remove(l)
		gone = append(gone, l)
	}
	if p.oldest != nil {
		p.timer.Reset(p.oldest.expires.Sub(now))
	}
	p.mu.Unlock()
	for _, l := range gone {
		l.close()
	}
}

// close closes all that are idle now.
func (p *lines) close() {
	p.mu.Lock()
	var gone []*line
	for p.oldest != nil {
		l := p.oldest
		p.remove(l)
		gone = append(gone, l)
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	for _, l := range gone {
		l.close()
	}
}
