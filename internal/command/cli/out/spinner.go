package out

import (
	"io"
	"time"
)

// Spinner shows that something is under way, on standard error and only to a person.
type Spinner struct {
	p          *Printer
	text       string
	at         int
	stop, done chan struct{}
}

var frames = [...]string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// Spin begins to show a text. Stop must be called. Only one spinner turns at a time; a second replaces the text of the first.
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

// Text changes what is shown.
func (s *Spinner) Text(text string) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.text = text
	if s.p.spin == s {
		s.clear()
		s.draw()
	}
}

// Stop takes the spinner away. It may be called twice.
func (s *Spinner) Stop() {
	s.p.mu.Lock()
	if s.p.spin == s {
		s.clear()
		s.p.spin = nil
		close(s.stop)
	}
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
