package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"time"
)

// pending tracks requests that were read but not answered. The SDK drops them when its input ends, so a client that
// pipes requests and closes its side, such as a shell script, would get no response. requestReader therefore delays the
// end of the input until there are none.
type pending struct {
	mu sync.Mutex
	// open holds the ids of unanswered requests, as JSON.
	open map[string]bool
	// answered is signalled after each change of open.
	answered chan struct{}
}

// record parses complete lines of JSON-RPC. With asked it adds the requests among them, otherwise it removes
// those that are answered.
func (p *pending) record(lines []byte, asked bool) {
	for line := range bytes.Lines(lines) {
		var message struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(line, &message) != nil || len(message.ID) == 0 || asked != (message.Method != "") {
			continue
		}
		p.mu.Lock()
		if asked {
			p.open[string(message.ID)] = true
		} else {
			delete(p.open, string(message.ID))
		}
		p.mu.Unlock()
		select {
		case p.answered <- struct{}{}:
		default:
		}
	}
}

func (p *pending) isEmpty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open) == 0
}

// drainTimeout bounds how long the end of the input is delayed for pending requests.
const drainTimeout = 30 * time.Second

// requestReader is the server's input. It reports the end of the input only after all requests are
// answered, or after drainTimeout.
type requestReader struct {
	io.ReadCloser
	pending *pending
	stop    <-chan struct{}
	// part is the beginning of a line.
	part []byte
}

func (a *requestReader) Read(into []byte) (int, error) {
	n, err := a.ReadCloser.Read(into)
	a.part = append(a.part, into[:n]...)
	if end := bytes.LastIndexByte(a.part, '\n'); end >= 0 {
		a.pending.record(a.part[:end+1], true)
		a.part = a.part[end+1:]
	}
	if n > 0 {
		return n, nil // report an error with the next read
	}
	if err == nil {
		return 0, nil
	}
	a.pending.record(a.part, true) // the last line may have no line break
	a.part = nil
	timeout := time.After(drainTimeout)
	for !a.pending.isEmpty() {
		select {
		case <-a.stop:
			return 0, err
		case <-timeout: // for example, a request that the client cancelled gets no response
			return 0, err
		case <-a.pending.answered:
		}
	}
	return 0, err
}

// responseWriter is the server's output. It records responses in pending.
type responseWriter struct {
	io.WriteCloser
	pending *pending
	// part is the beginning of a line.
	part []byte
}

func (a *responseWriter) Write(text []byte) (int, error) {
	n, err := a.WriteCloser.Write(text)
	a.part = append(a.part, text[:n]...)
	if end := bytes.LastIndexByte(a.part, '\n'); end >= 0 {
		a.pending.record(a.part[:end+1], false)
		a.part = a.part[end+1:]
	}
	return n, err
}
