package shape

import (
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/convert"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

func (m *mapper) appendTime(t time.Time, ok bool) bool {
	if !ok {
		return false
	}
	m.out = append(m.out, '"')
	m.out = convert.AppendTime(m.out, t)
	m.out = append(m.out, '"')
	return true
}

// appendPage maps a page: its items, and the cursor of the next page if there is one.
func (m *mapper) appendPage(sh *Shape, at uint32) bool {
	p := sh.paging
	items, ok := m.t.Get(at, p.items)
	if !ok || m.t.Kind(items) != tape.Array {
		m.fail("should be an array")
		return m.addSteps(p.items)
	}
	m.out = append(m.out, `{"items":[`...)
	last, count := uint32(0), 0
	for item := range m.t.Items(items) {
		if count > 0 {
			m.out = append(m.out, ',')
		}
		if !m.appendValue(sh.item, item) {
			m.addStep(strconv.Itoa(count))
			return m.addSteps(p.items)
		}
		last = item
		count++
	}
	m.out = append(m.out, `],"nextCursor":`...)
	if p.number != nil {
		return m.appendNextNumber(p, at)
	}
	more, ok := m.hasMore(p, at)
	if !ok {
		return false
	}
	if !more {
		m.out = append(m.out, `null,"hasMore":false}`...)
		return true
	}
	// The cursor is a member of the page, or a member of the last item as the platform sent it.
	path := p.next
	if p.nextOfLast != nil {
		if path = p.nextOfLast; count == 0 {
			m.fail("has no last item to continue from")
			return m.addSteps(p.items)
		}
		at = last
	}
	if !m.appendCursor(at, path) {
		return false
	}
	m.out = append(m.out, `,"hasMore":true}`...)
	return true
}

// appendNextNumber appends the end of a numbered page. Its cursor is the number of the next page.
func (m *mapper) appendNextNumber(p *paging, at uint32) bool {
	var numbers [2]int64
	for i, path := range [...][]string{p.number, p.last} {
		value, ok := m.t.Get(at, path)
		if ok && m.t.Kind(value) == tape.Number {
			n, err := strconv.ParseInt(string(m.t.Raw(value)), 10, 32)
			numbers[i], ok = n, err == nil && n >= 0
		} else {
			ok = false
		}
		if !ok {
			m.fail("should be the number of a page")
			return m.addSteps(path)
		}
	}
	if numbers[0] >= numbers[1] {
		m.out = append(m.out, `null,"hasMore":false}`...)
		return true
	}
	m.out = append(strconv.AppendInt(append(m.out, '"'), numbers[0]+1, 10), `","hasMore":true}`...)
	return true
}

// hasMore reports whether another page follows: by the member more if the style has one, else by the presence of next.
// A style with neither has one page.
func (m *mapper) hasMore(p *paging, at uint32) (more, ok bool) {
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
		return false, m.addSteps(p.more)
	}
	return m.t.Kind(value) == tape.True, true
}

// appendCursor appends the cursor of the next page as a string. The platform may write it as a string or a number.
func (m *mapper) appendCursor(at uint32, path []string) bool {
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
	m.fail("should be the cursor of the next page")
	return m.addSteps(path)
}
