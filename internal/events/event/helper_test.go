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
		t.Fatalf("got\n%+v\nwanted\n%+v", got, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fails(t testing.TB, err, with error) {
	t.Helper()
	if !errors.Is(err, with) {
		t.Fatalf("got %v, wanted %v", err, with)
	}
}

func holds(t testing.TB, text, part string, wanted bool) {
	t.Helper()
	if strings.Contains(text, part) != wanted {
		t.Fatalf("whether %q is in it should be %v:\n%s", part, wanted, text)
	}
}
