package id_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// An identifier is its prefix and 26 characters. It parses as its own kind and as no other.
func TestNewParsesAsItsOwnKindOnly(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^org_[0-7][0-9a-hjkmnp-tv-z]{25}$`)
	org := id.New[id.Org]()
	if !form.MatchString(string(org)) {
		t.Fatalf("%q does not look like an org id", org)
	}
	if got, err := id.Parse[id.Org](string(org)); err != nil || got != org {
		t.Fatalf("Parse(%q) = %q, %v", org, got, err)
	}
	if _, err := id.Parse[id.Key](string(org)); err == nil {
		t.Fatal("an org id parsed as a key id")
	}
}

// Identifiers sort by the time they were created, so inserts into an index on them stay at its right edge.
func TestNewSortsByTime(t *testing.T) {
	t.Parallel()
	made := make([]id.Event, 1000)
	for i := range made {
		made[i] = id.New[id.Event]()
	}
	if !slices.IsSorted(made) {
		t.Fatal("consecutive identifiers are not in order")
	}
	if len(slices.Compact(made)) != 1000 {
		t.Fatal("two identifiers are equal")
	}
}

func TestParseRejectsEveryOtherForm(t *testing.T) {
	t.Parallel()
	good := string(id.New[id.Org]())
	for _, bad := range []string{
		"", "org_", good[:len(good)-1], good + "0", "ORG" + good[3:], "org_8" + good[5:],
		good[:10] + "U" + good[11:], good[:10] + "l" + good[11:], good[:10] + "\x00" + good[11:], " " + good,
	} {
		if got, err := id.Parse[id.Org](bad); err == nil {
			t.Errorf("Parse(%q) = %q, want an error", bad, got)
		}
	}
}

// Parse returns exactly the text that it accepts.
func FuzzParse(f *testing.F) {
	f.Add(string(id.New[id.Account]()))
	f.Add("acct_")
	f.Add("acct_7zzzzzzzzzzzzzzzzzzzzzzzzz")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := id.Parse[id.Account](text)
		if err == nil && string(got) != text {
			t.Fatalf("Parse(%q) = %q", text, got)
		}
	})
}
