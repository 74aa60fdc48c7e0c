package shape

import (
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/convert"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

func (m *mapper) time(t time.Time, ok bool) bool {
	if !ok {
		return false
	}
	m.out = append(m.out, '"')
	m.out = convert.AppendTime(m.out, t)
	m.out = append(m.out, '"')
	return true
}

// page appends a page: its items, and where the next one begins.
func (m *mapper) page(sh *Shape, at uint32) bool {
	p := sh.paging
	items, ok := m.t.Get(at, p.items)
	if !ok || m.t.Kind(items) != tape.Array {
		m.fail("should be a list")
		return m.steps(p.items)
	}
	m.out = append(m.out, `{"items":[`...)
	last, count := uint32(0), 0
	for item := range m.t.Items(items) {
		if count > 0 {
			m.out = append(m.out, ',')
		}
		if !m.value(sh.item, item) {
			m.at(strconv.Itoa(count))
			return m.steps(p.items)
		}
		last = item
		count++
	}
	m.out = append(m.out, `],"nextCursor":`...)
	more, ok := m.more(p, at)
	if !ok {
		return false
	}
	if !more {
		m.out = append(m.out, `null,"hasMore":false}`...)
		return true
	}
	path := p.next
	if p.nextOfLast != nil {
		if path = p.nextOfLast; count == 0 {
			m.fail("has no last item to go on from")
			return m.steps(p.items)
		}
		at = last
	}
	if !m.cursor(at, path) {
		return false
	}
	m.out = append(m.out, `,"hasMore":true}`...)
	return true
}

// more finds out whether there is another page.
func (m *mapper) more(p *paging, at uint32) (more, ok bool) {
	if p.more == nil {
		if p.next == nil {
			return false, true
		}
		next, found := m.t.Get(at, p.next)
		return found && m.t.Kind(next) != tape.Null, true
	}
	value, found := m.t.Get(at, p.more)
	if !found || m.t.Kind(value) != tape.True && m.t.Kind(value) != tape.False {
		m.fail("should be true or false")
		return false, m.steps(p.more)
	}
	return m.t.Kind(value) == tape.True, true
}

// cursor appends where the next page begins, as a text.
func (m *mapper) cursor(at uint32, path []string) bool {
	next, ok := m.t.Get(at, path)
	if ok {
		switch m.t.Kind(next) {
		case tape.String:
			if len(m.t.Raw(next)) > 0 {
				m.out = m.t.AppendString(m.out, next)
				return true
			}
		case tape.Number:
			m.out = append(append(append(m.out, '"'), m.t.Raw(next)...), '"')
			return true
		case tape.Null, tape.True, tape.False, tape.Array, tape.Object:
		}
	}
	m.fail("should say where the next page begins")
	return m.steps(path)
}
