package endpoint

import (
	"bytes"
	"errors"
	"strings"
	"sync"
)

// frameAtOnce is about how much is written in one piece.
const frameAtOnce = 32 << 10

// frames are buffers of events that are being written. An idle stream has none.
var frames = sync.Pool{New: func() any { return new([]byte) }}

var errLines = errors.New("an event has a name or an id of more than one line")

// Send sends events, several in one piece where they are small, and ends the stream if they cannot be sent.
func (s *Events) Send(list []Message) error {
	buf, _ := frames.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= 2*frameAtOnce {
			frames.Put(buf)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(list) > 0 {
		text, n, err := s.gather((*buf)[:0], list)
		if err != nil {
			return err
		}
		*buf = text
		if err := s.writeLocked(text, n); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// gather writes as many events as go out in one piece.
func (s *Events) gather(to []byte, list []Message) (text []byte, n int, err error) {
	for _, m := range list {
		if n > 0 && (s.slow || len(to)+len(m.Data) > frameAtOnce) {
			break
		}
		if to, err = AppendMessage(to, m); err != nil {
			return to, n, err
		}
		n++
	}
	return to, n, nil
}

// AppendMessage writes an event as it stands in a stream. Data of several lines stays what it is, except that each line ends with a
// newline: the format has no other.
func AppendMessage(to []byte, m Message) ([]byte, error) {
	if strings.ContainsAny(m.Name, "\r\n\x00") || strings.ContainsAny(m.ID, "\r\n\x00") {
		return to, errLines
	}
	if m.ID != "" {
		to = append(to, "id: "...)
		to = append(to, m.ID...)
		to = append(to, '\n')
	}
	to = append(to, "event: "...)
	to = append(to, m.Name...)
	to = append(to, "\ndata: "...)
	if bytes.IndexByte(m.Data, '\n') < 0 && bytes.IndexByte(m.Data, '\r') < 0 {
		to = append(to, m.Data...) // all that come from the store
	} else {
		to = appendLines(to, m.Data)
	}
	return append(to, "\n\n"...), nil
}

// appendLines writes data of several lines.
func appendLines(to, data []byte) []byte {
	for i := 0; i < len(data); i++ {
		switch {
		case data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n':
		case data[i] == '\r' || data[i] == '\n':
			to = append(to, "\ndata: "...)
		default:
			to = append(to, data[i])
		}
	}
	return to
}
