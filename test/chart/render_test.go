// Package chart_test renders the Helm chart in deploy/chart with the values in its examples, decodes every object
// strictly with the types of the Kubernetes API and of the Prometheus operator, and checks what the chart promises.
package chart_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	root      = "../.."
	chart     = root + "/deploy/chart"
	namespace = "production"
)

// examples are the values that every test renders.
var examples = []string{"small", "two-regions", "air-gapped"}

// helm runs the pinned helm, and builds it if necessary.
func helm(args ...string) (string, error) {
	if err := buildHelm(); err != nil {
		return "", err
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(filepath.Join(root, ".dev", "bin", "helm"), args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String(), nil
}

var buildHelm = sync.OnceValue(func() error {
	if out, err := exec.Command(filepath.Join(root, "scripts", "tool"), "helm").CombinedOutput(); err != nil {
		return fmt.Errorf("scripts/tool helm: %w\n%s", err, out)
	}
	return nil
})

func template(values string, more ...string) (string, error) {
	return helm(append([]string{
		"template", "stagedoor", chart, "--namespace", namespace, "--kube-version", "1.37", "--values", filepath.Join(chart, "examples", values+".yaml"),
	}, more...)...)
}

// release is what the chart makes of some values, by kind.
type release struct {
	deployments []*apps.Deployment
	jobs        []*batch.Job
	services    []*core.Service
	accounts    []*core.ServiceAccount
	budgets     []*policy.PodDisruptionBudget
	scalers     []*autoscaling.HorizontalPodAutoscaler
	networks    []*networking.NetworkPolicy
	monitors    []*monitoring.ServiceMonitor
	rules       []*monitoring.PrometheusRule
}

// decode reads a document into a new object of its type. Unknown and repeated fields are errors.
func decode[T any](into *[]*T, document []byte) error {
	object := new(T)
	if err := yaml.UnmarshalStrict(document, object); err != nil {
		return err
	}
	*into = append(*into, object)
	return nil
}

// parse decodes the output of helm template. A kind that is not listed is an error: the chart makes no Secret.
func parse(text string) (*release, error) {
	r := &release{}
	decoders := map[string]func([]byte) error{
		"apps/v1 Deployment":                      func(b []byte) error { return decode(&r.deployments, b) },
		"batch/v1 Job":                            func(b []byte) error { return decode(&r.jobs, b) },
		"v1 Service":                              func(b []byte) error { return decode(&r.services, b) },
		"v1 ServiceAccount":                       func(b []byte) error { return decode(&r.accounts, b) },
		"policy/v1 PodDisruptionBudget":           func(b []byte) error { return decode(&r.budgets, b) },
		"autoscaling/v2 HorizontalPodAutoscaler":  func(b []byte) error { return decode(&r.scalers, b) },
		"networking.k8s.io/v1 NetworkPolicy":      func(b []byte) error { return decode(&r.networks, b) },
		"monitoring.coreos.com/v1 ServiceMonitor": func(b []byte) error { return decode(&r.monitors, b) },
		"monitoring.coreos.com/v1 PrometheusRule": func(b []byte) error { return decode(&r.rules, b) },
	}
	names := map[string]bool{}
	for document := range strings.SplitSeq("\n"+text, "\n---") {
		var object struct {
			meta.TypeMeta   `json:",inline"`
			meta.ObjectMeta `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, document)
		}
		if object.Kind == "" {
			continue // only comments
		}
		kind := object.APIVersion + " " + object.Kind
		read, ok := decoders[kind]
		if !ok {
			return nil, fmt.Errorf("the chart makes an object of an unexpected kind: %s", kind)
		}
		if err := read([]byte(document)); err != nil {
			return nil, fmt.Errorf("%s %s: %w", kind, object.Name, err)
		}
		id := kind + " " + object.Name
		if names[id] || object.Name == "" || object.Namespace != "" && object.Namespace != namespace {
			return nil, fmt.Errorf("%s in the namespace %q: objects need a name of their own, and the namespace of the release", id, object.Namespace)
		}
		names[id] = true
	}
	return r, nil
}

// rendered has the objects of all examples.
var rendered = sync.OnceValues(func() (map[string]*release, error) {
	all := map[string]*release{}
	for _, name := range examples {
		text, err := template(name)
		if err != nil {
			return nil, err
		}
		if all[name], err = parse(text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return all, nil
})

// forEach runs a test for every example.
func forEach(t *testing.T, test func(*testing.T, *release)) {
	t.Helper()
	t.Parallel()
	all, err := rendered()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range examples {
		t.Run(name, func(t *testing.T) { test(t, all[name]) })
	}
}

// pod is the template of a pod, with the name of what makes it.
type pod struct {
	name string
	core.PodTemplateSpec
}

// nodes are the pods of the roles.
func (r *release) nodes() (list []pod) {
	for _, d := range r.deployments {
		list = append(list, pod{d.Name, d.Spec.Template})
	}
	return list
}

// pods are the pods of the roles and of the migrations.
func (r *release) pods() []pod {
	list := r.nodes()
	for _, j := range r.jobs {
		list = append(list, pod{j.Name, j.Spec.Template})
	}
	return list
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Helm finds nothing wrong with the chart, and it makes what it promises.
func TestExamplesRender(t *testing.T) {
	for _, name := range examples {
		if out, err := helm("lint", "--strict", chart, "--values", filepath.Join(chart, "examples", name+".yaml")); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	forEach(t, func(t *testing.T, r *release) {
		for what, n := range map[string]int{
			"Deployments": len(r.deployments), "PodDisruptionBudgets": len(r.budgets), "NetworkPolicies": len(r.networks) - 1,
		} {
			if n != 3 {
				t.Errorf("%d %s; want one for each role", n, what)
			}
		}
		if len(r.jobs) != 1 || len(r.services) != 2 || len(r.accounts) != 1 {
			t.Errorf("%d Jobs, %d Services, %d ServiceAccounts", len(r.jobs), len(r.services), len(r.accounts))
		}
	})
}

// The small example has neither autoscaling nor monitoring, the others have what they are for.
func TestExamplesCoverTheOptions(t *testing.T) {
	t.Parallel()
	all, err := rendered()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][3]int{"small": {0, 0, 0}, "two-regions": {3, 1, 1}, "air-gapped": {0, 1, 1}} {
		r := all[name]
		if got := [3]int{len(r.scalers), len(r.monitors), len(r.rules)}; got != want {
			t.Errorf("%s has %v autoscalers, ServiceMonitors and PrometheusRules; want %v", name, got, want)
		}
	}
}

// Values that are misspelt, unsafe or incomplete are refused, and the message names them.
func TestWrongValuesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values string
		set    []string
		want   string
	}{
		"unknown value":            {"small", []string{"replicas=3"}, "replicas"},
		"unknown value of a role":  {"small", []string{"api.replica=3"}, "replica"},
		"misspelt setting":         {"small", []string{"settings.STAGEDOOR_PUBLIC_URI=https://x.test"}, "STAGEDOOR_PUBLIC_URI"},
		"secret among settings":    {"small", []string{"settings.DATABASE_URL=postgres://u:p@h/x"}, "DATABASE_URL"},
		"secret of a role":         {"small", []string{"api.settings.STAGEDOOR_METRICS_TOKEN=x"}, "STAGEDOOR_METRICS_TOKEN"},
		"development mode":         {"small", []string{"settings.STAGEDOOR_DEV=true"}, "STAGEDOOR_DEV"},
		"missing setting":          {"small", []string{"settings.STAGEDOOR_KMS=null"}, "STAGEDOOR_KMS"},
		"missing secret":           {"small", []string{"secrets.keys={REDIS_URL,NATS_URL,STAGEDOOR_IP_HASH_KEY}"}, "secrets/keys"},
		"owner's secret for nodes": {"small", []string{"secrets.keys[0]=STAGEDOOR_MIGRATION_URL"}, "secrets/keys"},
		"secret from two places":   {"small", []string{"settings.STAGEDOOR_KMS_TOKEN_FILE=/etc/stagedoor/ca/token"}, "STAGEDOOR_KMS_TOKEN is in secrets.keys"},
		"no version of the image":  {"small", []string{"image.tag="}, "image.tag"},
		"bad digest":               {"small", []string{"image.digest=sha256:123"}, "digest"},
		"long drain":               {"small", []string{"drainDelaySeconds=61"}, "drainDelaySeconds"},
		"no limit of memory":       {"small", []string{"api.resources.limits.memory=null"}, "memory"},
		"file without a source":    {"small", []string{"files[0].name=x", "files[0].configMap=null"}, "files"},
		"no list of peers":         {"small", []string{"networkPolicy.egress.postgres.to=null"}, "networkPolicy"},
		"no peers":                 {"small", []string{"json:networkPolicy.egress.nats.to=[]"}, "networkPolicy.egress.nats.to is empty"},
		"metrics without a token":  {"small", []string{"monitoring.enabled=true", "secrets.keys={DATABASE_URL,REDIS_URL,NATS_URL,STAGEDOOR_IP_HASH_KEY}"}, "STAGEDOOR_METRICS_TOKEN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			for _, one := range c.set {
				if json, ok := strings.CutPrefix(one, "json:"); ok {
					args = append(args, "--set-json", json)
				} else {
					args = append(args, "--set", one)
				}
			}
			if _, err := template(c.values, args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want an error with %q; got %v", c.want, err)
			}
		})
	}
}
