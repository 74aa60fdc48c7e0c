package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"time"
)

// pending are the requests that were read and not answered yet. The SDK drops them when its input ends; whoever pipes a request into the
// program would get no answer.
type pending struct {
	mu   sync.Mutex
	open map[string]bool
	// answered is poked at each answer.
	answered chan struct{}
}

// note reads whole lines: asked opens what has a method and an id, otherwise an id is answered.
func (p *pending) note(lines []byte, asked bool) {
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

func (p *pending) none() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open) == 0
}

// lastAnswers is how long answers may take once the input has ended.
const lastAnswers = 30 * time.Second

// asking is the input. Its end is told only once everything is answered.
type asking struct {
	io.ReadCloser
	pending *pending
	stop    <-chan struct{}
	part    []byte
}

// Read reads on.
func (a *asking) Read(into []byte) (int, error) {
	n, err := a.ReadCloser.Read(into)
	a.part = append(a.part, into[:n]...)
	if end := bytes.LastIndexByte(a.part, '\n'); end >= 0 {
		a.pending.note(a.part[:end+1], true)
		a.part = a.part[end+1:]
	}
	if n > 0 {
		return n, nil // the end comes with the next read
	}
	if err == nil {
		return 0, nil
	}
	a.pending.note(a.part, true) // the last line may have no end
	a.part = nil
	enough := time.After(lastAnswers)
	for !a.pending.none() {
		select {
		case <-a.stop:
			return 0, err
		case <-enough: // a request that the client has called off need not be answered
			return 0, err
		case <-a.pending.answered:
		}
	}
	return 0, err
}

// answering is the output.
type answering struct {
	io.WriteCloser
	pending *pending
	part    []byte
}

// Write writes on.
func (a *answering) Write(text []byte) (int, error) {
	n, err := a.WriteCloser.Write(text)
	a.part = append(a.part, text[:n]...)
	if end := bytes.LastIndexByte(a.part, '\n'); end >= 0 {
		a.pending.note(a.part[:end+1], false)
		a.part = a.part[end+1:]
	}
	return n, err
}
