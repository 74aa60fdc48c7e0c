package app_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// rule is an alert, or a series that Prometheus records.
type rule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

// readRules reads the rules that operators install.
func readRules(t *testing.T) (list []rule) {
	t.Helper()
	text, err := os.ReadFile(testenv.Path(t, "deploy", "chart", "rules", "stagedoor.yaml"))
	must.OK(t, err)
	var file struct {
		Groups []struct{ Rules []rule }
	}
	must.OK(t, yaml.Unmarshal(text, &file))
	for _, g := range file.Groups {
		list = append(list, g.Rules...)
	}
	return list
}

// recorded matches a recorded series in an expression.
var recorded = regexp.MustCompile(`stagedoor:[a-z_]+:\w+`)

// metricsOf returns the names in an expression, and those in the expressions of the recorded series that it uses.
func metricsOf(rules []rule, expr string) (names []string) {
	for _, m := range queried.FindAllStringSubmatch(expr, -1) {
		names = append(names, m[1])
	}
	for _, name := range recorded.FindAllString(expr, -1) {
		for _, r := range rules {
			if r.Record == name {
				names = append(names, metricsOf(rules, r.Expr)...)
			}
		}
	}
	return names
}

const docsURL = "https://stagedoor.example.com/docs/"

// A person who is paged learns what happened, what it means and what to do.
func TestEveryAlertHasARunbook(t *testing.T) {
	t.Parallel()
	rules := readRules(t)
	var objectives []string
	for _, r := range rules {
		if slo := r.Labels["slo"]; slo != "" && !slices.Contains(objectives, slo) {
			objectives = append(objectives, slo)
		}
	}
	for _, r := range rules {
		if r.Alert == "" {
			continue
		}
		if len(metricsOf(rules, r.Expr)) == 0 && !strings.Contains(r.Expr, "up{") {
			t.Errorf("%s: found no metric in %s", r.Alert, r.Expr)
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s has no summary or no description", r.Alert)
		}
		page, ok := strings.CutPrefix(r.Annotations["runbook_url"], docsURL)
		page, heading, _ := strings.Cut(page, "#")
		if !ok || !strings.HasPrefix(page, "runbooks/") {
			t.Errorf("%s has no runbook: %q", r.Alert, r.Annotations["runbook_url"])
			continue
		}
		text, err := os.ReadFile(testenv.Path(t, "docs", filepath.FromSlash(page)+".md"))
		if err != nil {
			t.Errorf("%s: %v", r.Alert, err)
			continue
		}
		headings := []string{heading}
		if heading == "{{ $labels.slo }}" {
			headings = objectives
		}
		for _, h := range headings {
			if h != "" && !slices.Contains(anchors(string(text)), h) {
				t.Errorf("%s: docs/%s.md has no heading %s", r.Alert, page, h)
			}
		}
	}
}

// anchors returns the anchors of a page's headings.
func anchors(text string) (list []string) {
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "##") {
			title = regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			list = append(list, strings.ReplaceAll(title, " ", "-"))
		}
	}
	return list
}

// Every alert has a test with series that raise it, and one with series that do not. CI runs them with promtool.
func TestEveryAlertIsTested(t *testing.T) {
	t.Parallel()
	raised, silent := map[string]bool{}, map[string]bool{}
	files, err := filepath.Glob(testenv.Path(t, "test", "rules", "*.yaml"))
	must.OK(t, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		must.OK(t, err)
		var file struct {
			Tests []struct {
				Alerts []struct {
					Name     string `yaml:"alertname"`
					Expected []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		must.OK(t, yaml.Unmarshal(text, &file))
		for _, one := range file.Tests {
			for _, a := range one.Alerts {
				raised[a.Name] = raised[a.Name] || len(a.Expected) > 0
				silent[a.Name] = silent[a.Name] || len(a.Expected) == 0
			}
		}
	}
	for _, r := range readRules(t) {
		if r.Alert != "" && (!raised[r.Alert] || !silent[r.Alert]) {
			t.Errorf("test/rules must raise %s in one test and not in another", r.Alert)
		}
	}
}

// alertsOn returns the alerts that each metric is used by, and fails for a metric or a label that no node has.
func alertsOn(t *testing.T, labels map[string][]string) map[string][]string {
	t.Helper()
	used, rules := map[string][]string{}, readRules(t)
	for _, r := range rules {
		for _, m := range queried.FindAllStringSubmatch(r.Expr, -1) {
			name := baseName(labels, m[1])
			if name == "" {
				t.Errorf("%s%s: there is no metric %s", r.Alert, r.Record, m[1])
				continue
			}
			for _, l := range selector.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(labels[name], l[1]) && !slices.Contains(targetLabels, l[1]) {
					t.Errorf("%s%s: %s has no label %s", r.Alert, r.Record, name, l[1])
				}
			}
		}
		if r.Alert == "" {
			continue
		}
		for _, m := range metricsOf(rules, r.Expr) {
			name := baseName(labels, m)
			if !slices.Contains(used[name], r.Alert) {
				used[name] = append(used[name], r.Alert)
			}
		}
	}
	return used
}

// baseName returns the metric that a series belongs to, such as a histogram for its buckets; empty if there is none.
func baseName(labels map[string][]string, series string) string {
	for _, name := range []string{series, seriesOf.ReplaceAllString(series, "")} {
		if _, ok := labels[name]; ok {
			return name
		}
	}
	return ""
}

// The page for operators lists every alert.
func TestAlertsAreListedInTheDocumentation(t *testing.T) {
	t.Parallel()
	type row struct{ summary, severity, page string }
	rows := map[string]row{}
	for _, r := range readRules(t) {
		if r.Alert == "" {
			continue
		}
		page, heading, _ := strings.Cut(strings.TrimPrefix(r.Annotations["runbook_url"], docsURL), "#")
		link := "../" + page + ".md"
		if heading != "" && !strings.Contains(heading, "{") {
			link += "#" + heading
		}
		summary := regexp.MustCompile(`\{\{ \$(?:labels\.)?(\w+)[^}]*\}\}`).ReplaceAllString(r.Annotations["summary"], "‹$1›")
		rows[r.Alert] = row{summary, r.Labels["severity"], link}
	}
	var table strings.Builder
	table.WriteString("| alert | severity | says | runbook |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r := rows[name]
		title := strings.TrimSuffix(filepath.Base(strings.Split(r.page, "#")[0]), ".md")
		fmt.Fprintf(&table, "| `%s` | %s | %s | [%s](%s) |\n", name, r.severity, r.summary, title, r.page)
	}
	checkTable(t, testenv.Path(t, "docs", "operations", "observability.md"), "alerts", table.String())
}
