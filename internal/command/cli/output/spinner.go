package output

import (
	"io"
	"sync"
	"time"
)

// Spinner shows progress on standard error, only on a terminal.
type Spinner struct {
	p    *Printer
	text string
	// at counts frames.
	at         int
	stop, done chan struct{}
	stopOnce   sync.Once
}

var frames = [...]string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// Spin shows a spinner with a text. The caller must call Stop. A second spinner replaces the first on the screen; each
// of them is stopped.
func (p *Printer) Spin(text string) *Spinner {
	s := &Spinner{p: p, text: text, stop: make(chan struct{}), done: make(chan struct{})}
	if !p.ErrTTY || p.Quiet || p.JSON {
		close(s.done)
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spin = s
	s.draw()
	go s.turn()
	return s
}

func (s *Spinner) Text(text string) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.text = text
	if s.p.spin == s {
		s.clear()
		s.draw()
	}
}

// Stop removes the spinner and waits for its goroutine. It may be called twice.
func (s *Spinner) Stop() {
	s.p.mu.Lock()
	if s.p.spin == s {
		s.clear()
		s.p.spin = nil
	}
	s.stopOnce.Do(func() { close(s.stop) })
	s.p.mu.Unlock()
	<-s.done
}

func (s *Spinner) turn() {
	defer close(s.done)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			s.p.mu.Lock()
			if s.p.spin == s {
				s.at++
				s.clear()
				s.draw()
			}
			s.p.mu.Unlock()
		}
	}
}

func (s *Spinner) clear() { _, _ = io.WriteString(s.p.Stderr, "\r\x1b[K") }

func (s *Spinner) draw() {
	_, _ = io.WriteString(s.p.Stderr, s.p.err(Accent, frames[s.at%len(frames)])+" "+s.text)
}
