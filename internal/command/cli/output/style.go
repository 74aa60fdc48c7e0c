package output

import (
	"charm.land/lipgloss/v2"

	"github.com/stagedoor/stagedoor/internal/base/contract"
)

// Tone is the meaning of a colour. Colour only repeats what the text says, since many terminals and
// all pipes have none.
type Tone int

// Tones use the terminal's 16 colours, so they follow its theme.
const (
	Plain Tone = iota
	Strong
	Faint
	Good
	Bad
	Attention
	Accent
)

func render(t Tone, text string) string {
	style := lipgloss.NewStyle()
	switch t {
	case Plain:
		return text
	case Strong:
		style = style.Bold(true)
	case Faint:
		style = style.Faint(true)
	case Good:
		style = style.Foreground(lipgloss.Green)
	case Bad:
		style = style.Foreground(lipgloss.Red)
	case Attention:
		style = style.Foreground(lipgloss.Yellow)
	case Accent:
		style = style.Foreground(lipgloss.Cyan)
	}
	return style.Render(text)
}

// Style styles a part of the data on standard output.
func (p *Printer) Style(t Tone, text string) string {
	if !p.Color || !p.TTY || text == "" {
		return text
	}
	return render(t, text)
}

func (p *Printer) err(t Tone, text string) string {
	if !p.Color || !p.ErrTTY || text == "" {
		return text
	}
	return render(t, text)
}

// StateTone returns the tone of a state of an account, attempt, webhook, delivery or listener, as the API names it.
func StateTone(state string) Tone {
	switch contract.ToneOf(state) {
	case contract.ToneOK:
		return Good
	case contract.ToneInfo, contract.ToneWarn:
		return Attention
	case contract.ToneBad:
		return Bad
	case contract.ToneNeutral:
	}
	return Plain
}

// StatusTone returns the tone of an HTTP status.
func StatusTone(status int64) Tone {
	switch {
	case status >= 200 && status < 300:
		return Good
	case status == 429 || (status >= 300 && status < 400):
		return Attention
	}
	return Bad
}
