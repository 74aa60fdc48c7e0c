package endpoint

import (
	"bytes"
	"errors"
	"strings"
	"sync"
)

// batchBytes is about how many bytes are written in one piece.
const batchBytes = 32 << 10

// buffers are reused for the text of events. An idle stream holds none.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

var errLines = errors.New("the name or id of an event contains a line break or NUL")

// Send sends events, several in one write if they are small. If a write fails, the stream ends.
func (s *Events) Send(list []Message) error {
	buf, _ := buffers.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= 2*batchBytes {
			buffers.Put(buf)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(list) > 0 {
		text, n, err := s.appendBatch((*buf)[:0], list)
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

// appendBatch appends as many events as go out in one write: one if the reader is slow, and else about batchBytes.
func (s *Events) appendBatch(to []byte, list []Message) (text []byte, n int, err error) {
	for _, m := range list {
		if n > 0 && (s.slow || len(to)+len(m.Data) > batchBytes) {
			break
		}
		if to, err = AppendMessage(to, m); err != nil {
			return to, n, err
		}
		n++
	}
	return to, n, nil
}

// AppendMessage appends an event in the format of a stream. Line breaks in the data become newlines: the format has no
// other.
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
		to = append(to, m.Data...) // The usual case: events in the store have one line.
	} else {
		to = appendLines(to, m.Data)
	}
	return append(to, "\n\n"...), nil
}

// appendLines appends data of several lines, each with its own field name.
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
