package output

import (
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/stagedoor/stagedoor/internal/base/qrcode"
)

// QR prints a link as a QR code on standard error, two rows of modules per line. With colour the code looks the same in
// every theme. Without, it is drawn for a dark background; most cameras also read it inverted.
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
