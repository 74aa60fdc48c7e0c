package output

import (
	"fmt"
	"strconv"
	"time"
)

// Ago formats a time relative to now: "just now", "5 min ago", "in 2 h". From 30 days on it is a date.
func (p *Printer) Ago(t time.Time) string {
	d := p.Now().Sub(t)
	switch {
	case d < 0:
		return p.ahead(t, -d)
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	case d < 30*24*time.Hour:
		return fmt.Sprintf("%d d ago", int(d.Hours()/24))
	}
	return t.Local().Format("2 Jan 2006")
}

func (p *Printer) ahead(t time.Time, d time.Duration) string {
	if d < 30*24*time.Hour {
		return "in " + Short(max(d, time.Second))
	}
	return t.Local().Format("2 Jan 2006")
}

// Clock formats the local time of day, for lines of a stream.
func Clock(t time.Time) string { return t.Local().Format("15:04:05") }

// Short formats a duration in one unit, rounded.
func Short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	case d >= time.Hour && d < 48*time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d < 90*time.Minute:
		return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Round(time.Hour).Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}

// Millis formats milliseconds.
func Millis(ms float64) string { return strconv.FormatFloat(ms, 'f', 0, 64) + " ms" }

// Group formats a number in groups of three digits: 1 000 000.
func Group(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return sign + digits
}

// Count formats a number with its noun in the singular or plural: "1 event", "3 events".
func Count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Group(n) + " " + many
}

// size formats a number of bytes in the largest unit, rounded down.
func size(n int64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if n < 1000 || unit == "GB" {
			return fmt.Sprintf("%d %s", n, unit)
		}
		n /= 1000
	}
	return ""
}

// Size returns a cell for a number of bytes.
func Size(n int64) Cell { return Cell{Text: size(n), Raw: strconv.FormatInt(n, 10)} }
