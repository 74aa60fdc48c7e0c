package app_test

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor"
	"github.com/stagedoor/stagedoor/docs"
	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/listen"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// A single node holds every slot of every kind of work, and the metrics show it.
func TestMetricsShowTheLeasesOfEveryKind(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{})[0]
	for kind, slots := range map[string]int{"listen": listen.Slots, "ingest": event.Buckets} {
		want := regexp.MustCompile(`(?m)^stagedoor_lease_slots_held\{kind="` + kind + `"\} (\d+)$`)
		for deadline := time.Now().Add(2 * time.Minute); ; {
			metrics := string(node.Operate(t, http.MethodGet, "/metrics", nil).Body)
			found := want.FindStringSubmatch(metrics)
			if found == nil {
				t.Errorf("there is no stagedoor_lease_slots_held of kind %s", kind)
				break
			}
			if found[1] == strconv.Itoa(slots) {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("%s; want %d", found[0], slots)
				break
			}
			<-time.After(20 * time.Millisecond)
		}
	}
}

var (
	described  = regexp.MustCompile(`fqName: "(\w+)", help: "(.*)", unit: "[^"]*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}`)
	constLabel = regexp.MustCompile(`(\w+)="`)
	labelName  = regexp.MustCompile(`\w+`)
	// mentioned matches a metric in a document, with the character before it and the labels after it.
	mentioned = regexp.MustCompile(`(\^?)\b(stagedoor_[a-z_]+)(?:\{([^}]*)\})?`)
	wantLabel = regexp.MustCompile(`(\w+)(?:\s*[=!~]+\s*"[^"]*")?`)
	seriesOf  = regexp.MustCompile(`_(count|sum|bucket)$`)
)

// notMetrics are other names in the documents with the prefix of metrics.
var notMetrics = []string{
	"stagedoor_app",                                                                                 // the role in operations/database-roles.md
	"stagedoor_keyring",                                                                             // the database in sealing.md
	"stagedoor_nats",                                                                                // the volume in operations/deploy.md
	"stagedoor_before_",                                                                             // the databases that a restore keeps, in operations/one-vm.md
	"stagedoor_restored",                                                                            // the database of the drill in operations/backup-and-restore.md
	"stagedoor_verify",                                                                              // the helper in verify/python
	"stagedoor_calls", "stagedoor_active_accounts", "stagedoor_events_delivered", "stagedoor_bytes", // meters of usage for billing, in operators.md
}

// action matches an action of a template of the chart.
var action = regexp.MustCompile(`\{\{[^{}]*\}\}`)

// describeMetrics returns the labels and the meaning of all metrics of a node.
func describeMetrics(t *testing.T) (labels map[string][]string, meaning map[string]string) {
	t.Helper()
	// Metrics of proxies have a region, so there must be a proxy.
	node := testnode.Nodes(t, 1, testnode.Setup{
		Egress: secret.New("us=http://127.0.0.1:9"),
		// So must the receivers of the audit stream and of usage.
		Configure: func(c *config.Config) {
			c.AuditStream = "file:" + filepath.Join(t.TempDir(), "audit.jsonl")
			c.UsageWebhook, c.UsageWebhookSecret = "http://127.0.0.1:9/usage", secret.New(strings.Repeat("u", 32))
		},
	})[0]
	labels, meaning = map[string][]string{}, map[string]string{}
	all := make(chan *prometheus.Desc)
	go func() {
		defer close(all)
		node.App.Registry().Describe(all)
	}()
	for d := range all {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("cannot read %s", d)
		}
		name, help := m[1], m[2]
		add := func(label string) {
			if !slices.Contains(labels[name], label) {
				labels[name] = append(labels[name], label)
			}
		}
		labels[name] = append([]string{}, labels[name]...)
		for _, label := range labelName.FindAllString(m[4], -1) {
			add(label)
		}
		for _, l := range constLabel.FindAllStringSubmatch(m[3], -1) {
			add(l[1])
		}
		meaning[name] = strings.ReplaceAll(help, `\"`, `"`)
	}
	return labels, meaning
}

// An alert on a metric that does not exist never fires, and an autoscaler without its metric does not scale. Every metric
// in the documents and in the Helm chart must exist on a node, with its labels.
func TestMetricsInTheDocumentsExist(t *testing.T) {
	t.Parallel()
	labels, _ := describeMetrics(t)
	checked := 0
	for _, files := range []fs.FS{docs.Files, stagedoor.Files, os.DirFS(testenv.Path(t, "deploy", "chart"))} {
		err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !slices.Contains([]string{".md", ".yaml", ".tpl"}, filepath.Ext(path)) || path == "CHANGELOG.md" {
				return err
			}
			text, err := fs.ReadFile(files, path)
			if err != nil {
				return err
			}
			for _, m := range mentioned.FindAllStringSubmatch(action.ReplaceAllString(string(text), ""), -1) {
				if slices.Contains(notMetrics, m[2]) {
					continue
				}
				checked++
				if m[1] == "^" { // A prefix of several metrics, for grep.
					if !hasPrefix(labels, m[2]) {
						t.Errorf("%s: no metric begins with %s", path, m[2])
					}
					continue
				}
				known, ok := labels[m[2]]
				if !ok { // a histogram's number of observations, for example
					known, ok = labels[seriesOf.ReplaceAllString(m[2], "")]
				}
				if !ok {
					t.Errorf("%s: there is no metric %s", path, m[2])
					continue
				}
				for _, l := range wantLabel.FindAllStringSubmatch(m[3], -1) {
					if !slices.Contains(known, l[1]) && !slices.Contains(targetLabels, l[1]) {
						t.Errorf("%s: %s has no label %s, only %v", path, m[2], l[1], known)
					}
				}
			}
			return nil
		})
		must.OK(t, err)
	}
	if checked < 50 {
		t.Errorf("only %d metrics were found in the documents", checked)
	}
}

func hasPrefix(metrics map[string][]string, prefix string) bool {
	for name := range metrics {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
