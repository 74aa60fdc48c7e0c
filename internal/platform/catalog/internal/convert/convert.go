// Package convert translates single values between our notation and a platform's: money, times, integers, ids.
//
// The Append functions write JSON without quotes around strings. Numbers are handled as decimal text and never as
// floats, so nothing is rounded by accident. Functions that take a number expect one that the tape package has
// accepted.
package convert

import (
	"strconv"
	"time"
)

// maxDigits bounds the digits of an integer. A 64-bit integer has at most 20.
const maxDigits = 20

// decimal is a JSON number split into its parts: ±digits × 10^power. The digits have no zeros at either end, and zero
// has no digits.
type decimal struct {
	negative bool
	digits   []byte
	power    int
}

// maxPower bounds the exponent, so that adding to it cannot overflow.
const maxPower = 1000

// parseDecimal splits a number. It writes the digits to buf if they fit. It returns false if the exponent is out of
// range.
func parseDecimal(number, buf []byte) (decimal, bool) {
	d := decimal{digits: buf[:0]}
	i := 0
	if i < len(number) && number[i] == '-' {
		d.negative = true
		i++
	}
	point := false
	for ; i < len(number); i++ {
		c := number[i]
		if c == '.' {
			point = true
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		if point {
			d.power--
		}
		if c != '0' || len(d.digits) > 0 {
			d.digits = append(d.digits, c)
		}
	}
	if i < len(number) { // number[i] is e or E
		n, err := strconv.Atoi(string(number[i+1:]))
		if err != nil || n > maxPower || n < -maxPower {
			return d, len(d.digits) == 0 // zero is zero with any exponent
		}
		d.power += n
	}
	for len(d.digits) > 0 && d.digits[len(d.digits)-1] == '0' {
		d.digits = d.digits[:len(d.digits)-1]
		d.power++
	}
	return d, true
}

// appendScaled appends number × 10^shift as an integer. It returns false if the result is not an integer or has more
// than maxDigits digits.
func appendScaled(dst, number []byte, shift int) ([]byte, bool) {
	var buf [64]byte
	d, ok := parseDecimal(number, buf[:])
	if !ok {
		return dst, false
	}
	if len(d.digits) == 0 {
		return append(dst, '0'), true
	}
	zeros := d.power + shift
	if zeros < 0 || len(d.digits)+zeros > maxDigits {
		return dst, false
	}
	if d.negative {
		dst = append(dst, '-')
	}
	dst = append(dst, d.digits...)
	for range zeros {
		dst = append(dst, '0')
	}
	return dst, true
}

// AppendInteger appends an integer in canonical form: 1.0 and 1e0 become 1. It returns false if the number is not an
// integer or has more than 20 digits.
func AppendInteger(dst, number []byte) ([]byte, bool) { return appendScaled(dst, number, 0) }

// maxCents is the most characters that an amount in cents may have, sign included, so that clients that read it as a
// double (53 bits) lose nothing.
const maxCents = 15

// AppendCents converts major units to minor units: 12.5 becomes 1250. It returns false if the amount has more than two
// decimals or is too large.
func AppendCents(dst, number []byte) ([]byte, bool) {
	from := len(dst)
	dst, ok := appendScaled(dst, number, 2)
	if !ok || len(dst)-from > maxCents {
		return dst[:from], false
	}
	return dst, true
}

// AppendMajor converts minor units to major units: 1250 becomes 12.5. The argument must be an integer in canonical
// form.
func AppendMajor(dst, cents []byte) []byte {
	if len(cents) > 0 && cents[0] == '-' {
		dst = append(dst, '-')
		cents = cents[1:]
	}
	switch len(cents) {
	case 1:
		if cents[0] == '0' {
			return append(dst, '0')
		}
		return append(dst, '0', '.', '0', cents[0])
	case 2:
		dst = append(dst, '0')
	default:
		dst = append(dst, cents[:len(cents)-2]...)
	}
	cents = cents[len(cents)-2:]
	switch {
	case cents[0] == '0' && cents[1] == '0':
		return dst
	case cents[1] == '0':
		return append(dst, '.', cents[0])
	}
	return append(dst, '.', cents[0], cents[1])
}

// ParseTime parses an RFC 3339 time with any offset and returns it in UTC. It rejects years outside 0 to 9999, which
// AppendTime cannot write.
func ParseTime(text []byte) (time.Time, bool) {
	var t time.Time
	if err := t.UnmarshalText(text); err != nil {
		return time.Time{}, false
	}
	t = t.UTC()
	return t, t.Year() >= 0 && t.Year() <= 9999
}

// ParseUnix parses seconds since 1970, with or without a fraction. It truncates to milliseconds.
func ParseUnix(number []byte) (time.Time, bool) { return parseSince1970(number, 3) }

// ParseUnixMilli parses milliseconds since 1970. It drops a fraction.
func ParseUnixMilli(number []byte) (time.Time, bool) { return parseSince1970(number, 0) }

// parseSince1970 parses number × 10^shift as milliseconds since 1970.
func parseSince1970(number []byte, shift int) (time.Time, bool) {
	var buf [64]byte
	d, ok := parseDecimal(number, buf[:])
	if !ok {
		return time.Time{}, false
	}
	zeros := d.power + shift
	if cut := -zeros; cut > 0 {
		d.digits = d.digits[:max(len(d.digits)-cut, 0)]
		zeros = 0
	}
	if len(d.digits)+zeros > 15 { // the last millisecond of the year 9999 has 15 digits
		return time.Time{}, false
	}
	var ms int64
	for _, c := range d.digits {
		ms = ms*10 + int64(c-'0')
	}
	for range zeros {
		ms *= 10
	}
	if d.negative {
		ms = -ms
	}
	t := time.UnixMilli(ms).UTC()
	return t, t.Year() >= 0 && t.Year() <= 9999
}

// AppendTime appends a time in our notation: RFC 3339 in UTC with milliseconds.
func AppendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	dst = append(dst, byte('0'+year/1000), byte('0'+year/100%10))
	for _, part := range [...]struct {
		number    int
		separator byte
	}{{year % 100, '-'}, {int(month), '-'}, {day, 'T'}, {hour, ':'}, {minute, ':'}, {second, '.'}} {
		dst = append(dst, byte('0'+part.number/10), byte('0'+part.number%10), part.separator)
	}
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(dst, byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// AppendUnix appends seconds since 1970, with up to three decimals and no trailing zeros.
func AppendUnix(dst []byte, t time.Time) []byte {
	ms := t.UnixMilli()
	if ms < 0 {
		dst, ms = append(dst, '-'), -ms
	}
	dst = strconv.AppendInt(dst, ms/1000, 10)
	rest := ms % 1000
	if rest == 0 {
		return dst
	}
	dst = append(dst, '.', byte('0'+rest/100))
	if rest%100 == 0 {
		return dst
	}
	dst = append(dst, byte('0'+rest/10%10))
	if rest%10 == 0 {
		return dst
	}
	return append(dst, byte('0'+rest%10))
}

// IsID reports whether a text is a platform id: at most 20 digits without leading zeros. Platforms write ids as
// numbers.
func IsID(text []byte) bool {
	if len(text) == 0 || len(text) > maxDigits || text[0] == '0' && len(text) > 1 {
		return false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// IDPattern is IsID as a regular expression.
const IDPattern = `^(0|[1-9][0-9]{0,19})$`
