package out

import (
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/stagedoor/stagedoor/internal/base/qrcode"
)

// QR draws a link for a phone's camera: two rows of modules to a line. With colour it is black on white in every theme; without,
// it is drawn for a dark ground, which most readers take either way.
func (p *Printer) QR(link string) error {
	code, err := qrcode.New(link)
	if err != nil {
		return err
	}
	text := code.Text()
	if p.Color && p.ErrTTY {
		style := lipgloss.NewStyle().Foreground(lipgloss.BrightWhite).Background(lipgloss.Black)
		lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
		for i := range lines {
			lines[i] = style.Render(lines[i])
		}
		text = strings.Join(lines, "\n") + "\n"
	}
	p.write(p.Stderr, text)
	return nil
}
