package event_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func equal[T any](t testing.TB, want, got T) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("got\n%+v\nwant\n%+v", got, want)
	}
}

func wantError(t testing.TB, err, with error) {
	t.Helper()
	if !errors.Is(err, with) {
		t.Fatalf("got %v, want %v", err, with)
	}
}

func wantContains(t testing.TB, text, part string, wanted bool) {
	t.Helper()
	if strings.Contains(text, part) != wanted {
		t.Fatalf("contains %q: want %v, in:\n%s", part, wanted, text)
	}
}
