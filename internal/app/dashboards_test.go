package app_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

var update = flag.Bool("update", false, "write the tables of metrics and of alerts into docs/operations")

var (
	// queried matches a metric in an expression, with its selector.
	queried = regexp.MustCompile(`\b((?:stagedoor|go|process)_\w+)(?:\{([^}]*)\})?`)
	// grouped matches the labels of an aggregation.
	grouped  = regexp.MustCompile(`by \(([^)]*)\)`)
	selector = regexp.MustCompile(`(\w+)[=!]~?"`)
)

// targetLabels are labels that Prometheus adds, also in Kubernetes, and le is that of buckets.
var targetLabels = []string{"job", "instance", "namespace", "pod", "le"}

// A chart of a metric that does not exist is empty. Every metric and label of a dashboard exists, every metric of the
// product is on a dashboard, and the table of metrics names the dashboards and the alerts.
func TestDashboardsShowEveryMetric(t *testing.T) {
	t.Parallel()
	labels, meaning := describeMetrics(t)
	shown, rules := map[string][]string{}, readRules(t)
	files, err := filepath.Glob(testenv.Path(t, "deploy", "grafana", "*.json"))
	must.OK(t, err)
	for _, file := range files {
		var d struct {
			Title  string
			Panels []struct {
				Title   string
				Targets []struct{ Expr, LegendFormat string }
			}
		}
		text, err := os.ReadFile(file)
		must.OK(t, err)
		must.OK(t, json.Unmarshal(text, &d))
		for _, p := range d.Panels {
			for _, line := range p.Targets {
				where := fmt.Sprintf("%s, %s: %s", filepath.Base(file), p.Title, line.Expr)
				var known []string
				for _, name := range recorded.FindAllString(line.Expr, -1) {
					at := slices.IndexFunc(rules, func(r rule) bool { return r.Record == name })
					if at < 0 {
						t.Errorf("%s: no rule records %s", where, name)
						continue
					}
					known = append(slices.AppendSeq(known, maps.Keys(rules[at].Labels)), targetLabels...)
				}
				for _, m := range queried.FindAllStringSubmatch(line.Expr, -1) {
					name := baseName(labels, m[1])
					if name == "" {
						t.Errorf("%s: there is no metric %s", where, m[1])
						continue
					}
					if !slices.Contains(shown[name], d.Title) {
						shown[name] = append(shown[name], d.Title)
					}
					known = append(slices.Concat(known, labels[name]), targetLabels...)
					for _, l := range selector.FindAllStringSubmatch(m[2], -1) {
						if !slices.Contains(labels[name], l[1]) && !slices.Contains(targetLabels, l[1]) {
							t.Errorf("%s: %s has no label %s", where, name, l[1])
						}
					}
				}
				named := regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(line.LegendFormat, -1)
				for _, by := range grouped.FindAllStringSubmatch(line.Expr, -1) {
					for label := range strings.SplitSeq(by[1], ", ") {
						named = append(named, []string{"", label})
					}
				}
				for _, l := range named {
					if !slices.Contains(known, l[1]) {
						t.Errorf("%s: no metric of it has a label %s", where, l[1])
					}
				}
			}
		}
	}
	alerts := alertsOn(t, labels)
	var table strings.Builder
	table.WriteString("| metric | labels | meaning | dashboards | alerts |\n|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(meaning)) {
		if !strings.HasPrefix(name, "stagedoor_") {
			continue
		}
		if len(shown[name]) == 0 {
			t.Errorf("%s is on no dashboard", name)
		}
		of := make([]string, len(labels[name]))
		for i, l := range labels[name] {
			of[i] = "`" + l + "`"
		}
		boards := make([]string, len(shown[name]))
		for i, title := range shown[name] {
			boards[i] = strings.TrimPrefix(title, "Stagedoor: ")
		}
		on := make([]string, len(alerts[name]))
		for i, alert := range alerts[name] {
			on[i] = strings.TrimPrefix(alert, "Stagedoor")
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", name, strings.Join(of, ", "), strings.ReplaceAll(meaning[name], "|", "\\|"),
			strings.Join(boards, ", "), strings.Join(on, ", "))
	}
	checkTable(t, testenv.Path(t, "docs", "operations", "metrics.md"), "metrics", table.String())
}

// checkTable compares the text between two comments of a document with what it must be.
func checkTable(t *testing.T, file, name, want string) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	text, err := os.ReadFile(file)
	must.OK(t, err)
	before, rest, _ := strings.Cut(string(text), begin)
	is, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no place for the table", file)
	}
	if is == want {
		return
	}
	if !*update {
		t.Errorf("%s is out of date; run make generate", file)
		return
	}
	must.OK(t, os.WriteFile(file, []byte(before+begin+want+end+after), 0o600))
}
