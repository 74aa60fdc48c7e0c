package convert_test

import (
	"math/big"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/convert"
)

// Amounts are converted exactly in both directions. Fractions of a cent are rejected.
func TestCents(t *testing.T) {
	t.Parallel()
	for theirs, want := range map[string]string{
		"12.5": "1250", "0.1": "10", "0.30": "30", "0.30000000000000004": "", "12": "1200", "-3.99": "-399", "0": "0", "-0.00": "0",
		"1.25e1": "1250", "125e-1": "1250", "1e3": "100000", "0.005": "", "1e-3": "", "12.500": "1250", "0.07": "7", "1.15": "115",
		"9999999999999.99": "999999999999999", "99999999999999.99": "", "1e999": "", "0e99999": "0", "1e99999999999999999999": "",
	} {
		got, ok := convert.AppendCents(nil, []byte(theirs))
		if ok != (want != "") || string(got) != want {
			t.Errorf("%s = %q %v, want %q", theirs, got, ok, want)
		}
	}
	for ours, want := range map[string]string{
		"1250": "12.5", "1200": "12", "5": "0.05", "50": "0.5", "0": "0", "-399": "-3.99", "100": "1", "7": "0.07", "10": "0.1", "101": "1.01",
	} {
		if got := string(convert.AppendMajor(nil, []byte(ours))); got != want {
			t.Errorf("%s = %s, want %s", ours, got, want)
		}
	}
}

// Cents that are converted to major units and back are unchanged.
func TestCentsComeBack(t *testing.T) {
	t.Parallel()
	for cents := -20_500; cents <= 20_500; cents++ {
		text := strconv.Itoa(cents)
		major := convert.AppendMajor(nil, []byte(text))
		back, ok := convert.AppendCents(nil, major)
		if !ok || string(back) != text {
			t.Fatalf("%s -> %s -> %s", text, major, back)
		}
	}
}

// Integers have one canonical form, and large ones keep every digit.
func TestInteger(t *testing.T) {
	t.Parallel()
	for theirs, want := range map[string]string{
		"1": "1", "1.0": "1", "10e-1": "1", "-0": "0", "1e2": "100", "12345678901234567890": "12345678901234567890",
		"1.5": "", "1e20": "", "123456789012345678901": "", "4242000000000000001": "4242000000000000001",
	} {
		got, ok := convert.AppendInteger(nil, []byte(theirs))
		if ok != (want != "") || string(got) != want {
			t.Errorf("%s = %q %v, want %q", theirs, got, ok, want)
		}
	}
}

// Times are converted to UTC and truncated to milliseconds.
func TestTimes(t *testing.T) {
	t.Parallel()
	for theirs, want := range map[string]string{
		"2026-11-14T22:50:00Z": "2026-11-14T22:50:00.000Z", "2026-11-15T00:50:00.1239+02:00": "2026-11-14T22:50:00.123Z",
		"2026-11-14": "", "2026-13-14T22:50:00Z": "", "0000-01-01T00:00:00+01:00": "", "": "",
	} {
		at, ok := convert.ParseTime([]byte(theirs))
		if ok != (want != "") || ok && string(convert.AppendTime(nil, at)) != want {
			t.Errorf("%s = %v %v, want %s", theirs, at, ok, want)
		}
	}
	for theirs, want := range map[string]string{
		"0": "1970-01-01T00:00:00.000Z", "1700000000": "2023-11-14T22:13:20.000Z", "1700000000.123": "2023-11-14T22:13:20.123Z",
		"1700000000.1239": "2023-11-14T22:13:20.123Z", "1.7e9": "2023-11-14T22:13:20.000Z", "1e15": "", "1e-9": "1970-01-01T00:00:00.000Z",
		"-1.5": "1969-12-31T23:59:58.500Z", "999999999999": "",
	} {
		at, ok := convert.ParseUnix([]byte(theirs))
		if ok != (want != "") || ok && string(convert.AppendTime(nil, at)) != want {
			t.Errorf("%s = %v %v, want %s", theirs, at, ok, want)
		}
	}
	for _, ms := range []int64{0, 1, -62167219200000, 253402300799999, 1700000000123, 951782400000} {
		at := time.UnixMilli(ms)
		if got, want := string(convert.AppendTime(nil, at)), at.UTC().Format("2006-01-02T15:04:05.000Z"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, ms := range []int64{0, 1, 10, 100, 120, 123, 1000, 1700000000123, 1700000000100, -1500} {
		text := convert.AppendUnix(nil, time.UnixMilli(ms))
		if at, ok := convert.ParseUnix(text); !ok || at.UnixMilli() != ms {
			t.Errorf("%d -> %s -> %v", ms, text, at)
		}
	}
}

// IsID agrees with the published pattern.
func TestIDs(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(convert.IDPattern)
	for _, text := range []string{"", "0", "00", "01", "1", "4242000000000000001", "99999999999999999999", "999999999999999999999", "-1", "1a", "１"} {
		if got, want := convert.IsID([]byte(text)), pattern.MatchString(text); got != want {
			t.Errorf("IsID(%q) = %v, the pattern says %v", text, got, want)
		}
	}
}

// For any number, AppendCents agrees with exact rational arithmetic.
func FuzzCents(f *testing.F) {
	for _, seed := range []string{"12.5", "-0.07", "1e3", "1.25e1", "0.005"} {
		f.Add(seed)
	}
	grammar := regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$`)
	f.Fuzz(func(t *testing.T, number string) {
		if len(number) > 64 || !grammar.MatchString(number) {
			return
		}
		got, ok := convert.AppendCents(nil, []byte(number))
		exact, _ := new(big.Rat).SetString(number)
		exact.Mul(exact, big.NewRat(100, 1))
		if ok && exact.RatString() != string(got) {
			t.Fatalf("%s = %s, want %s", number, got, exact.RatString())
		}
		if !ok && exact.IsInt() && len(exact.Num().String()) < 15 {
			t.Fatalf("%s rejected", number)
		}
	})
}
