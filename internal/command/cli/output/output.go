// Package output prints what commands produce: data on standard output, messages on standard error.
//
// A terminal gets aligned tables, colour and relative times. A pipe gets tab-separated values, complete and
// uncoloured. With --json the caller prints the API's response body. Nothing is read here; prompts are in package
// core. Start at Printer.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Printer writes the output of one command. Its methods are safe for concurrent use; each call is one write.
type Printer struct {
	// Stdout gets data only. Stderr gets messages, prompts and spinners.
	Stdout, Stderr io.Writer
	// TTY and ErrTTY report whether Stdout and Stderr are terminals.
	TTY, ErrTTY bool
	// JSON is --json, Quiet is --quiet. Color allows colour on terminals.
	JSON, Quiet, Color bool
	// Width is the number of columns of the terminal; 0 is unknown.
	Width int
	// Now is the clock for relative times.
	Now func() time.Time

	mu   sync.Mutex
	spin *Spinner
}

// Data writes a line of data to standard output.
func (p *Printer) Data(format string, args ...any) {
	p.write(p.Stdout, fmt.Sprintf(format, args...)+"\n")
}

// Bytes writes data unchanged to standard output.
func (p *Printer) Bytes(b []byte) {
	p.write(p.Stdout, string(b))
}

// Body writes a JSON body to standard output, indented on a terminal and unchanged in a pipe.
func (p *Printer) Body(b []byte) {
	b = bytes.TrimSpace(b)
	if p.TTY {
		var pretty bytes.Buffer
		if json.Indent(&pretty, b, "", "  ") == nil {
			b = pretty.Bytes()
		}
	}
	p.write(p.Stdout, string(b)+"\n")
}

// Value writes a value as JSON, for --json output that does not come from the API.
func (p *Printer) Value(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	p.Body(text)
	return nil
}

// Line writes a value as one line of JSON, for streams.
func (p *Printer) Line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	p.write(p.Stdout, string(text)+"\n")
	return nil
}

// Say writes a message to standard error, unless --quiet.
func (p *Printer) Say(format string, args ...any) {
	if !p.Quiet {
		p.write(p.Stderr, fmt.Sprintf(format, args...)+"\n")
	}
}

// Done reports a completed change on standard error, unless --quiet.
func (p *Printer) Done(format string, args ...any) {
	p.Say("%s %s", p.err(Good, "✓"), fmt.Sprintf(format, args...))
}

// Warn writes a warning to standard error, even with --quiet.
func (p *Printer) Warn(format string, args ...any) {
	p.write(p.Stderr, p.err(Attention, "!")+" "+fmt.Sprintf(format, args...)+"\n")
}

// Hint suggests a next step. It is printed only on a terminal.
func (p *Printer) Hint(format string, args ...any) {
	if p.ErrTTY {
		p.Say("%s", p.err(Faint, fmt.Sprintf(format, args...)))
	}
}

// Err styles a part of a message for standard error.
func (p *Printer) Err(t Tone, text string) string { return p.err(t, text) }

// write clears the spinner before the text and draws it again below.
func (p *Printer) write(w io.Writer, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spin != nil {
		p.spin.clear()
	}
	// If the reader closed the pipe, as in `| head`, SIGPIPE ends the process; other errors cannot be reported anywhere.
	_, _ = io.WriteString(w, text)
	if p.spin != nil {
		p.spin.draw()
	}
}

// OneLine makes a text safe for a cell. Line breaks and tabs become spaces; other control characters are removed.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		if r < ' ' || r == 0x7f {
			return -1 // text from the platform must not send escape sequences to the user's terminal
		}
		return r
	}, text)
}

// Alert writes a line to standard error, even with --quiet.
func (p *Printer) Alert(format string, args ...any) {
	p.write(p.Stderr, fmt.Sprintf(format, args...)+"\n")
}
