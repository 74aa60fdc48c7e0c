package core

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

// reader returns standard input. All prompts share its buffer; with one each, a prompt could swallow the next answer.
func (a *App) reader() *bufio.Reader {
	if a.input == nil {
		a.input = bufio.NewReader(a.Stdin)
	}
	return a.input
}

// Ask prompts for a line. If it cannot prompt it returns a usage fault with the hint instead, which names
// the flag to use.
func (a *App) Ask(ctx context.Context, question, instead string) (string, error) {
	if !a.Interactive() {
		return "", UsageHint(instead, "%s is required, and prompting is not possible", question)
	}
	return a.prompt(ctx, question, a.readLine, nil)
}

// AskSecret prompts like Ask, and does not echo what is typed.
func (a *App) AskSecret(ctx context.Context, question, instead string) (string, error) {
	if !a.Interactive() {
		return "", UsageHint(instead, "%s is required, and prompting is not possible", question)
	}
	file, isFile := a.Stdin.(*os.File)
	if !isFile {
		return a.prompt(ctx, question, a.readLine, nil)
	}
	// ReadPassword turns off echo only when it begins to read. Do it before the prompt appears, or the terminal would echo
	// a secret that is pasted immediately.
	terminal := int(file.Fd())
	before, err := term.MakeRaw(terminal)
	if err != nil {
		return "", fmt.Errorf("turn off echo: %w", err)
	}
	read := func() (string, error) {
		text, err := term.ReadPassword(terminal)
		return string(text), err
	}
	return a.prompt(ctx, question, read, func() { _ = term.Restore(terminal, before) })
}

// prompt prints a question and reads the answer. It returns early when the context ends; the read then stays blocked in
// the background. If the terminal does not echo the answer, restore turns echo on again; otherwise it is nil.
func (a *App) prompt(ctx context.Context, question string, read func() (string, error), restore func()) (string, error) {
	hidden := restore != nil
	if !hidden {
		restore = func() {}
	}
	_, _ = io.WriteString(a.Out.Stderr, a.Out.Err(output.Strong, question)+": ")
	type result struct {
		text string
		err  error
	}
	// Read in the background so that Ctrl-C works while the read blocks.
	got := make(chan result, 1)
	go func() {
		text, err := read()
		got <- result{text, err}
	}()
	select {
	case <-ctx.Done():
		restore()
		a.Out.Alert("")
		return "", ctx.Err()
	case r := <-got:
		restore()
		ended := errors.Is(r.err, io.EOF) && r.text == ""
		if hidden || ended { // the terminal has not shown a line break
			a.Out.Alert("")
		}
		if ended {
			return "", Usage("%s is required", question)
		}
		if r.err != nil && !errors.Is(r.err, io.EOF) {
			return "", fmt.Errorf("read %s: %w", question, r.err)
		}
		return strings.TrimSpace(r.text), nil
	}
}

func (a *App) readLine() (string, error) { return a.reader().ReadString('\n') }

// ReadSecret prompts for a secret, or reads all of standard input if that is no terminal. Neither leaves a trace in the
// process list or the shell history, as a flag would.
func (a *App) ReadSecret(ctx context.Context, question string) (string, error) {
	if a.Interactive() {
		return a.AskSecret(ctx, question, "")
	}
	if a.StdinTTY {
		return "", UsageHint("Pipe it to standard input.", "%s is required, and --no-input disables prompts", question)
	}
	text, err := a.ReadInput()
	if err != nil {
		return "", err
	}
	if len(strings.TrimSpace(string(text))) == 0 {
		return "", UsageHint("Pipe it to standard input.", "%s is required, and standard input is empty", question)
	}
	return strings.TrimSpace(string(text)), nil
}

// NextLine returns the next line of standard input without surrounding space, and io.EOF after the last.
func (a *App) NextLine() (string, error) {
	text, err := a.readLine()
	if errors.Is(err, io.EOF) && text != "" {
		err = nil
	}
	return strings.TrimSpace(text), err
}

// maxInput bounds what is read from standard input, in bytes. It is larger than any request the API accepts.
const maxInput = 64 << 20

// ReadInput reads standard input to its end, at most maxInput bytes.
func (a *App) ReadInput() ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(a.reader(), maxInput))
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	return text, nil
}

// ReadFile reads a file, or standard input for "-".
func (a *App) ReadFile(path string) ([]byte, error) {
	if path == "-" {
		return a.ReadInput()
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, Usage("%v", err)
	}
	return text, nil
}

// Confirm guards a destructive command. It returns nil if the value of --confirm or the text that the user types equals
// name, and a usage fault otherwise.
func (a *App) Confirm(ctx context.Context, consequence, name, confirmed string) error {
	if confirmed == name {
		return nil
	}
	if confirmed != "" {
		return Usage("--confirm=%s does not match %s", confirmed, name)
	}
	if !a.Interactive() {
		return UsageHint("To confirm, add --confirm="+Quote(name)+".", "confirmation required. %s", consequence)
	}
	a.Out.Warn("%s", consequence)
	typed, err := a.Ask(ctx, "Type "+name+" to continue", "")
	if err != nil {
		return err
	}
	if typed != name {
		return &Fault{Code: ExitUsage, Text: "the text does not match " + name + "; nothing was changed"}
	}
	return nil
}

// Quote quotes a word for a POSIX shell, if it needs quotes.
func Quote(word string) string {
	if strings.ContainsAny(word, " \t'\"$&|;<>()*?[]#~`\\!") || word == "" {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
