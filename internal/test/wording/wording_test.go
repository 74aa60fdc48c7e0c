package wording_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/wording"
)

var update = flag.Bool("update", false, "write testdata/allowed.txt, which may only become shorter")

// testdata/allowed.txt lists how many avoided words are left in a file. The list may only shrink.
func TestTextsAvoidWordsThatPuzzleReaders(t *testing.T) {
	t.Parallel()
	found, err := wording.Check(testenv.Path(t))
	must.OK(t, err)
	counts := map[string]int{}
	for _, f := range found {
		counts[f.File]++
	}
	var list strings.Builder
	for _, file := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintln(&list, file, counts[file])
	}
	const path = "testdata/allowed.txt"
	allowed, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Fatal(err)
	}
	if list.String() == string(allowed) {
		return
	}
	if *update {
		must.OK(t, os.WriteFile(path, []byte(list.String()), 0o600))
		return
	}
	before := map[string]int{}
	for line := range strings.Lines(string(allowed)) {
		var file string
		var count int
		if _, err := fmt.Sscan(line, &file, &count); err != nil {
			t.Fatal(err)
		}
		before[file] = count
	}
	for _, f := range found {
		if counts[f.File] > before[f.File] {
			t.Errorf("%s: use a plainer word (CONTRIBUTING.md)", f)
		}
	}
	for file, count := range before {
		if counts[file] < count {
			t.Errorf("%s has fewer avoided words than allowed: go test ./internal/test/wording -update", file)
		}
	}
}

func TestWordsAreFoundInEveryKindOfText(t *testing.T) {
	t.Parallel()
	found, err := wording.Check("testdata/puzzling")
	must.OK(t, err)
	var got []string
	for _, f := range found {
		got = append(got, f.String())
	}
	want := []string{
		`guide.md:3: "behind"`, `guide.md:5: "somebody"`,
		`internal/platform/catalog/manifests/sandbox/events.yaml:1: "Somebody"`, `puzzling.go:1: "nobody"`, `puzzling.go:5: "Left out"`,
		`web/src/page.tsx:1: "at once"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
