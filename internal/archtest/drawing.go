package archtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkDrawing compares what ARCHITECTURE.md says of layers and peers with what holds here.
func checkDrawing(root string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		return nil, err
	}
	var faults []string
	rows := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.Contains(cells[2], "`") {
			rows[strings.TrimSpace(cells[1])] = strings.Fields(strings.ReplaceAll(cells[2], "`", ""))
		}
	}
	for _, l := range layers {
		if drawn := rows[l.name]; l.name != "checks" && !same(drawn, l.packages) {
			faults = append(faults, fmt.Sprintf("ARCHITECTURE.md draws layer %s as %q; it is %q", l.name, drawn, l.packages))
		}
	}
	for _, from := range slices.Sorted(maps.Keys(peers)) {
		if want := fmt.Sprintf("`%s → %s`", from, strings.Join(peers[from], ", ")); !strings.Contains(string(text), want) {
			faults = append(faults, "ARCHITECTURE.md does not say "+want)
		}
	}
	return faults, nil
}

func same(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// unused lists peers that may be imported, and are by nobody.
func unused(packages []*pkg) []string {
	used := map[string]bool{}
	for _, p := range packages {
		from, _, _ := strings.Cut(strings.TrimPrefix(p.dir, "internal/"), "/")
		for _, to := range p.imports {
			to, _, _ = strings.Cut(strings.TrimPrefix(to, "internal/"), "/")
			used[from+" "+to] = true
		}
	}
	var faults []string
	for from, list := range peers {
		for _, to := range list {
			if !used[from+" "+to] {
				faults = append(faults, fmt.Sprintf("internal/%s may import internal/%s and does not", from, to))
			}
		}
	}
	return faults
}
