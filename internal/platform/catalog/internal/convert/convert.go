// Package convert translates single values between our way of writing them and a platform's: money, times, numbers.
//
// Numbers are text and stay text: nothing here is a float, so nothing is rounded that was not meant to be.
package convert

import (
	"strconv"
	"time"
)

// maxDigits bounds an integer: what a 64-bit number can hold has at most 20.
const maxDigits = 20

// decimal is a number that JSON's grammar allows, taken apart: digits, without zeros at either end, times ten to the power.
type decimal struct {
	negative bool
	digits   []byte
	power    int
}

// maxPower bounds the exponent, so that sums of exponents cannot overflow.
const maxPower = 1000

// parse takes a number apart. buf is where its digits may go.
func parse(number, buf []byte) (decimal, bool) {
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
	if i < len(number) { // an exponent
		n, err := strconv.Atoi(string(number[i+1:]))
		if err != nil || n > maxPower || n < -maxPower {
			return d, len(d.digits) == 0 // zero is zero, whatever its exponent
		}
		d.power += n
	}
	for len(d.digits) > 0 && d.digits[len(d.digits)-1] == '0' {
		d.digits = d.digits[:len(d.digits)-1]
		d.power++
	}
	return d, true
}

// appendScaled appends the number times ten to the power of shift, which must be whole.
func appendScaled(dst, number []byte, shift int) ([]byte, bool) {
	var buf [64]byte
	d, ok := parse(number, buf[:])
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

// AppendInteger appends a number in its plainest form (1.0 and 1e0 are 1); false if it is not whole, or has more than 20 digits.
func AppendInteger(dst, number []byte) ([]byte, bool) { return appendScaled(dst, number, 0) }

// maxCents keeps money within what a 64-bit integer, and a float's 53 bits of it, can hold.
const maxCents = 15

// AppendCents appends major units as minor ones: 12.5 is 1250. False if there are more than two decimals.
func AppendCents(dst, number []byte) ([]byte, bool) {
	from := len(dst)
	dst, ok := appendScaled(dst, number, 2)
	if !ok || len(dst)-from > maxCents {
		return dst[:from], false
	}
	return dst, true
}

// AppendMajor appends minor units, an integer in its plainest form, as major ones: 1250 is 12.5.
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

// ParseTime reads RFC 3339 with any offset. Years that our form cannot write are refused.
func ParseTime(text []byte) (time.Time, bool) {
	var t time.Time
	if err := t.UnmarshalText(text); err != nil {
		return time.Time{}, false
	}
	t = t.UTC()
	return t, t.Year() >= 0 && t.Year() <= 9999
}

// ParseUnix reads seconds since 1970, with or without a fraction; what is finer than a millisecond is cut off.
func ParseUnix(number []byte) (time.Time, bool) {
	var buf [64]byte
	d, ok := parse(number, buf[:])
	if !ok {
		return time.Time{}, false
	}
	zeros := d.power + 3
	if cut := -zeros; cut > 0 {
		d.digits = d.digits[:max(len(d.digits)-cut, 0)]
		zeros = 0
	}
	if len(d.digits)+zeros > 15 { // beyond the year 9999, which has 15 digits of milliseconds
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

// AppendTime appends a time in our form: UTC, with milliseconds.
func AppendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	dst = append(dst, byte('0'+year/1000), byte('0'+year/100%10))
	for _, part := range [...]struct {
		number int
		behind byte
	}{{year % 100, '-'}, {int(month), '-'}, {day, 'T'}, {hour, ':'}, {minute, ':'}, {second, '.'}} {
		dst = append(dst, byte('0'+part.number/10), byte('0'+part.number%10), part.behind)
	}
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(dst, byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// AppendUnix appends seconds since 1970, with a fraction only if there is one.
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

// IsID says whether a text is an identifier that the platform writes as a number: digits, and no zero in front.
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
