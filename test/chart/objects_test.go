package chart_test

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// selected returns the names of the pods that a selector matches.
func selected(t *testing.T, pods []pod, selector *meta.LabelSelector) (names []string) {
	t.Helper()
	s, err := meta.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	if s.Empty() {
		t.Error("an empty selector matches the pods of others")
	}
	for _, p := range pods {
		if s.Matches(labels.Set(p.Labels)) {
			names = append(names, p.name)
		}
	}
	return names
}

func matching(set map[string]string) *meta.LabelSelector {
	return &meta.LabelSelector{MatchLabels: set}
}

// Every selector matches the pods that it is for, and no others: not those of another role, not the migrations, and not
// those of another release.
func TestSelectorsMatchTheirPods(t *testing.T) {
	nodes := []string{"stagedoor-api", "stagedoor-worker", "stagedoor-listener"}
	text, err := template("small")
	if err != nil {
		t.Fatal(err)
	}
	other, err := parse(strings.ReplaceAll(text, "instance: stagedoor", "instance: other"))
	if err != nil {
		t.Fatal(err)
	}
	forEach(t, func(t *testing.T, r *release) {
		pods := r.pods()
		foreign := other.pods()
		want := func(what string, selector *meta.LabelSelector, names ...string) {
			t.Helper()
			if got := selected(t, pods, selector); !slices.Equal(got, names) {
				t.Errorf("%s selects %q; want %q", what, got, names)
			}
			if got := selected(t, foreign, selector); len(got) > 0 {
				t.Errorf("%s selects %q of another release", what, got)
			}
		}
		for _, d := range r.deployments {
			want(d.Name, d.Spec.Selector, d.Name)
			for _, c := range d.Spec.Template.Spec.TopologySpreadConstraints {
				want("the spread of "+d.Name, c.LabelSelector, d.Name)
			}
		}
		for _, b := range r.budgets {
			want("the budget "+b.Name, b.Spec.Selector, b.Name)
			if b.Spec.MaxUnavailable == nil || b.Spec.MaxUnavailable.IntValue() != 1 || b.Spec.MinAvailable != nil {
				t.Errorf("the budget %s lets more than one node leave, or none", b.Name)
			}
		}
		for _, n := range r.networks {
			want("the policy "+n.Name, &n.Spec.PodSelector, n.Name)
		}
		for _, s := range r.services {
			switch {
			case s.Name == "stagedoor":
				want("the public Service", matching(s.Spec.Selector), "stagedoor-api")
			default:
				want("the internal Service", matching(s.Spec.Selector), nodes...)
				if s.Spec.ClusterIP != core.ClusterIPNone || cmp.Or(s.Spec.Type, core.ServiceTypeClusterIP) != core.ServiceTypeClusterIP {
					t.Error("the internal Service has an address")
				}
			}
			for _, p := range s.Spec.Ports {
				for _, d := range r.deployments {
					c := d.Spec.Template.Spec.Containers[0]
					if s.Name == "stagedoor" && d.Name != "stagedoor-api" {
						if portOf(c, p.TargetPort.String()) != 0 {
							t.Errorf("%s serves the public port", d.Name)
						}
						continue
					}
					setting := map[bool]string{true: "STAGEDOOR_LISTEN", false: "STAGEDOOR_INTERNAL_LISTEN"}[s.Name == "stagedoor"]
					if got := environ(c)[setting]; got != ":"+strconv.Itoa(portOf(c, p.TargetPort.String())) {
						t.Errorf("the Service %s leads to the port %s of %s, whose %s is %s", s.Name, p.TargetPort.String(), d.Name, setting, got)
					}
				}
			}
		}
	})
}

// Autoscalers have a Deployment, which leaves the number of nodes to them, and a metric of the nodes that the
// documentation tells the Prometheus adapter to serve.
func TestAutoscalersScaleTheirRole(t *testing.T) {
	page := read(t, "docs", "operations", "kubernetes.md")
	signals := map[string]string{
		"stagedoor-api": "stagedoor_http_in_flight", "stagedoor-worker": "stagedoor_webhook_backlog", "stagedoor-listener": "stagedoor_listener_sockets",
	}
	forEach(t, func(t *testing.T, r *release) {
		scaled := map[string]bool{}
		for _, h := range r.scalers {
			scaled[h.Spec.ScaleTargetRef.Name] = true
			if h.Spec.MinReplicas == nil || *h.Spec.MinReplicas < 2 || h.Spec.MaxReplicas < *h.Spec.MinReplicas {
				t.Errorf("%s: from %v to %d nodes", h.Name, h.Spec.MinReplicas, h.Spec.MaxReplicas)
			}
			var metrics []string
			for _, m := range h.Spec.Metrics {
				if m.Pods != nil {
					metrics = append(metrics, m.Pods.Metric.Name)
					if v := m.Pods.Target.AverageValue; v == nil || v.Sign() <= 0 {
						t.Errorf("%s: %s has no target", h.Name, m.Pods.Metric.Name)
					}
				}
			}
			if want := signals[h.Spec.ScaleTargetRef.Name]; !slices.Equal(metrics, []string{want}) {
				t.Errorf("%s scales by %q; want %s", h.Name, metrics, want)
			} else if !strings.Contains(page, "seriesQuery: "+want) {
				t.Errorf("docs/operations/kubernetes.md has no rule of the adapter for %s", want)
			}
		}
		for _, d := range r.deployments {
			if (d.Spec.Replicas == nil) != scaled[d.Name] {
				t.Errorf("%s: the Deployment and an autoscaler both set the number of nodes, or neither does", d.Name)
			}
		}
	})
}

// Policies close everything that is not listed: each has both directions, no rule is without peers except the public
// port, and only what sends webhooks reaches the internet, on one port and without private addresses.
func TestNetworkPoliciesAllowOnlyWhatIsNeeded(t *testing.T) {
	forEach(t, func(t *testing.T, r *release) {
		webhooks := t.Name() != "TestNetworkPoliciesAllowOnlyWhatIsNeeded/air-gapped"
		for _, n := range r.networks {
			if !slices.Contains(n.Spec.PolicyTypes, networking.PolicyTypeIngress) || !slices.Contains(n.Spec.PolicyTypes, networking.PolicyTypeEgress) {
				t.Errorf("%s leaves a direction open: %v", n.Name, n.Spec.PolicyTypes)
			}
			isAPI := n.Name == "stagedoor-api"
			public := false
			for _, rule := range n.Spec.Ingress {
				for _, port := range rule.Ports {
					public = public || port.Port.String() == "http"
					if port.Port.String() != "http" && len(rule.From) == 0 {
						t.Errorf("%s: everyone reaches the port %s", n.Name, port.Port)
					}
				}
				if len(rule.Ports) == 0 {
					t.Errorf("%s: all ports are open", n.Name)
				}
			}
			if public != isAPI {
				t.Errorf("%s: the public port is open: %t", n.Name, public)
			}
			reach := map[string]bool{}
			internet := false
			for _, rule := range n.Spec.Egress {
				if len(rule.To) == 0 || len(rule.Ports) == 0 {
					t.Errorf("%s: an egress rule without peers or ports allows everything", n.Name)
				}
				for _, port := range rule.Ports {
					reach[string(*port.Protocol)+port.Port.String()] = true
				}
				for _, to := range rule.To {
					if to.IPBlock == nil {
						continue
					}
					block := netip.MustParsePrefix(to.IPBlock.CIDR)
					if block.Bits() > 0 {
						continue
					}
					internet = true
					if len(rule.Ports) != 1 || rule.Ports[0].Port.IntValue() != 443 {
						t.Errorf("%s: reaches the internet on other ports than 443", n.Name)
					}
					for _, private := range []string{"10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "127.0.0.1", "100.64.0.1", "fd00:ec2::254", "fe80::1", "::1"} {
						addr := netip.MustParseAddr(private)
						if addr.Is4() == block.Addr().Is4() && !slices.ContainsFunc(to.IPBlock.Except, func(not string) bool { return netip.MustParsePrefix(not).Contains(addr) }) {
							t.Errorf("%s: the rule for webhooks allows %s", n.Name, private)
						}
					}
				}
			}
			if want := webhooks && (isAPI || n.Name == "stagedoor-worker"); internet != want {
				t.Errorf("%s: reaches the internet: %t; want %t", n.Name, internet, want)
			}
			needs := []string{"UDP53", "TCP53", "TCP5432"}
			if n.Name != "stagedoor-migrate" {
				needs = append(needs, "TCP6379", "TCP4222", "TCP3128")
			} else if len(n.Spec.Ingress) > 0 || len(n.Spec.Egress) != 2 {
				t.Error("the migrations reach more than DNS and the databases")
			}
			for _, port := range needs {
				if !reach[port] {
					t.Errorf("%s: does not reach %s", n.Name, port)
				}
			}
		}
	})
}

// The Job of the migrations and what it needs exist before the nodes of a new version. It ends, and is replaced by the
// next one.
func TestMigrationsRunFirst(t *testing.T) {
	forEach(t, func(t *testing.T, r *release) {
		job := r.jobs[0]
		hooks := func(name string, annotations map[string]string) string {
			if annotations["helm.sh/hook"] != "pre-install,pre-upgrade" || !strings.Contains(annotations["helm.sh/hook-delete-policy"], "before-hook-creation") {
				t.Errorf("%s is no hook that is replaced: %v", name, annotations)
			}
			return annotations["helm.sh/hook-weight"]
		}
		weight := hooks(job.Name, job.Annotations)
		for _, n := range r.networks {
			if n.Name == job.Name && hooks(n.Name, n.Annotations) >= weight {
				t.Errorf("the policy of %s is made after it", job.Name)
			}
		}
		spec := job.Spec.Template.Spec
		if spec.ServiceAccountName != "" {
			t.Errorf("%s uses the ServiceAccount %s, which may not exist yet", job.Name, spec.ServiceAccountName)
		}
		if !slices.Equal(spec.Containers[0].Args, []string{"migrate"}) || job.Spec.ActiveDeadlineSeconds == nil || spec.RestartPolicy != core.RestartPolicyNever {
			t.Errorf("%s does not migrate, or does not end", job.Name)
		}
		for _, d := range r.deployments {
			if len(d.Annotations) > 0 || d.Spec.Template.Spec.ServiceAccountName != r.accounts[0].Name || !slices.Equal(d.Spec.Template.Spec.Containers[0].Args, []string{"serve"}) {
				t.Errorf("%s is no Deployment of nodes with the ServiceAccount", d.Name)
			}
		}
	})
}

// expressions returns the selectors of all alerts, by alert.
func expressions(t *testing.T, r *release) map[string][]*parser.VectorSelector {
	t.Helper()
	all := map[string][]*parser.VectorSelector{}
	for _, rule := range r.rules {
		for _, group := range rule.Spec.Groups {
			for _, one := range group.Rules {
				expr, err := parser.NewParser(parser.Options{}).ParseExpr(one.Expr.String())
				if err != nil {
					t.Errorf("%s: %v\n%s", one.Alert, err, one.Expr.String())
					continue
				}
				parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
					if s, ok := node.(*parser.VectorSelector); ok {
						all[one.Alert+one.Record] = append(all[one.Alert+one.Record], s)
					}
					return nil
				})
				if url := one.Annotations["runbook_url"]; one.Alert != "" && !strings.HasPrefix(url, "https://") || strings.Contains(url, "example.com/docs") && !strings.Contains(url, "api.") {
					t.Errorf("%s: the runbook %s is not at the public URL", one.Alert, url)
				}
			}
		}
	}
	return all
}

// The rules can be parsed and concern this release only. They are those of the file, which package app compares with the
// metrics of a node.
func TestAlertsConcernOneRelease(t *testing.T) {
	forEach(t, func(t *testing.T, r *release) {
		if len(r.rules) == 0 {
			return
		}
		all := expressions(t, r)
		if len(all) < 20 {
			t.Errorf("there are only %d alerts", len(all))
		}
		for alert, selectors := range all {
			for _, s := range selectors {
				var of []string
				for _, m := range s.LabelMatchers {
					of = append(of, m.String())
				}
				for _, want := range []string{`namespace="` + namespace + `"`, `job="stagedoor-internal"`} {
					if !slices.Contains(of, want) {
						t.Errorf("%s: %s lacks %s", alert, s, want)
					}
				}
			}
		}
	})
}

// Prometheus finds the internal Service, whose name is the job of the alerts, and sends the token that nodes ask for.
func TestPrometheusFindsTheNodes(t *testing.T) {
	forEach(t, func(t *testing.T, r *release) {
		for _, m := range r.monitors {
			selector, err := meta.LabelSelectorAsSelector(&m.Spec.Selector)
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, s := range r.services {
				if selector.Matches(labels.Set(s.Labels)) {
					found = append(found, s.Name)
					if !slices.ContainsFunc(s.Spec.Ports, func(p core.ServicePort) bool { return p.Name == m.Spec.Endpoints[0].Port }) {
						t.Errorf("%s has no port %s", s.Name, m.Spec.Endpoints[0].Port)
					}
				}
			}
			if !slices.Equal(found, []string{"stagedoor-internal"}) {
				t.Errorf("the ServiceMonitor selects %q", found)
			}
			token := m.Spec.Endpoints[0].Authorization.Credentials
			env := environ(r.deployments[0].Spec.Template.Spec.Containers[0])
			volume := r.deployments[0].Spec.Template.Spec.Volumes[0]
			if env[token.Key+"_FILE"] == "" || token.Key != "STAGEDOOR_METRICS_TOKEN" || volume.Secret.SecretName != token.Name {
				t.Errorf("Prometheus sends the key %s of %s, which nodes do not read", token.Key, token.Name)
			}
		}
	})
}

// Every value is in the table of the documentation.
func TestValuesAreDocumented(t *testing.T) {
	t.Parallel()
	page := read(t, "docs", "operations", "kubernetes.md")
	top := regexp.MustCompile(`(?m)^(\w+):`).FindAllStringSubmatch(read(t, "deploy", "chart", "values.yaml"), -1)
	if len(top) < 15 {
		t.Fatalf("only %d values were found", len(top))
	}
	for _, m := range top {
		if !regexp.MustCompile("(?m)^\\| .*`" + m[1] + "[`.]").MatchString(page) {
			t.Errorf("docs/operations/kubernetes.md has no row for %s", m[1])
		}
	}
}
