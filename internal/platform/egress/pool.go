package egress

import (
	"net"
	"sync"
	"time"
)

// connKey identifies the owner and destination of a connection. Only calls with the same key share connections.
type connKey struct {
	isolation Isolation
	account   string
	proxy     *proxyNode
	address   string
	secure    bool
}

// pooledConn is a connection that is either idle in the pool or owned by one call. No goroutine watches it; its owner
// reads and writes.
type pooledConn struct {
	conn net.Conn
	key  connKey
	// stop is the method value of abort, made once to save each call an allocation.
	stop func()
	// timeoutErr is the error that a missed deadline stands for.
	timeoutErr error

	mu      sync.Mutex
	aborted bool

	// Fields of the pool, guarded by its mutex. next links idle connections of the same key; older and newer link all
	// idle connections by age.
	expires      time.Time
	next         *pooledConn // of the same key
	older, newer *pooledConn
}

func newPooledConn(conn net.Conn, key connKey) *pooledConn {
	l := &pooledConn{conn: conn, key: key}
	l.stop = l.abort
	return l
}

// past is a deadline that ends reads and writes in progress.
var past = time.Unix(1, 0)

// setDeadline sets the deadline of reads and writes to limit from now, or to total if that is earlier, and records the
// error that it stands for. A limit of 0 or less, and a zero total, mean no bound. It has no effect after abort.
func (l *pooledConn) setDeadline(now time.Time, limit time.Duration, why error, total time.Time) {
	var until time.Time
	if limit > 0 {
		until = now.Add(limit)
	}
	if !total.IsZero() && (until.IsZero() || total.Before(until)) {
		until, why = total, ErrTooLong
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timeoutErr = why
	if !l.aborted {
		_ = l.conn.SetDeadline(until) // fails only on a closed connection, which the next read reports
	}
}

// abort ends reads and writes in progress. The connection is unusable afterwards.
func (l *pooledConn) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aborted = true
	_ = l.conn.SetDeadline(past) // see setDeadline
}

func (l *pooledConn) close() { _ = l.conn.Close() } // it is discarded, so an error does not matter

// connPool holds the idle connections of a node, by key and by age.
type connPool struct {
	now func() time.Time
	// max bounds the idle connections. The longest idle one is closed first.
	max int

	mu             sync.Mutex
	idle           map[connKey]idleStack
	oldest, newest *pooledConn
	count          int
	timer          *time.Timer
}

// idleStack holds the idle connections of one key, the last used on top.
type idleStack struct {
	top  *pooledConn
	size int
}

func newConnPool(limit int, now func() time.Time) *connPool {
	return &connPool{now: now, max: limit, idle: map[connKey]idleStack{}}
}

// takeIdle removes and returns the last used connection of a key that has not expired, or nil if there is none.
func (p *connPool) takeIdle(key connKey) *pooledConn {
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
	return p.takeIdle(key)
}

// keepIdle adds a connection to the pool for at most the given time. It may close this or another one if the pool is
// full.
func (p *connPool) keepIdle(l *pooledConn, keep time.Duration) {
	l.expires = p.now().Add(keep)
	if out := p.addIdle(l); out != nil {
		out.close()
	}
}

// addIdle adds a connection and returns one to close if a limit is exceeded: l itself if its key has too many, or the
// longest idle connection.
func (p *connPool) addIdle(l *pooledConn) (out *pooledConn) {
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
	l.next, p.idle[l.key] = same.top, idleStack{l, same.size + 1}
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
		p.timer = time.AfterFunc(idleTimeout, p.closeExpired)
	case p.count == 1:
		p.timer.Reset(idleTimeout)
	}
	return out
}

// remove unlinks an idle connection. The caller holds the lock.
func (p *connPool) remove(l *pooledConn) {
	same := p.idle[l.key]
	if same.top == l {
		same.top = l.next
	} else {
		above := same.top
		for above.next != l {
			above = above.next
		}
		above.next = l.next
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
	l.next, l.older, l.newer = nil, nil, nil
	p.count--
}

// closeExpired closes expired connections from the oldest on, and schedules itself for the next one.
func (p *connPool) closeExpired() {
	now := p.now()
	var gone []*pooledConn
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

// close closes all idle connections.
func (p *connPool) close() {
	p.mu.Lock()
	var gone []*pooledConn
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
