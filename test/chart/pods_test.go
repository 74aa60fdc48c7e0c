package chart_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

// Pods have no rights that the program does not need, and their resources are bounded.
func TestPodsAreConfined(t *testing.T) {
	forEach(t, func(t *testing.T, r *release) {
		for _, p := range r.pods() {
			refute := func(broken bool, format string, args ...any) {
				t.Helper()
				if broken {
					t.Errorf(p.name+": "+format, args...)
				}
			}
			s := p.Spec.SecurityContext
			refute(s == nil || !is(s.RunAsNonRoot, true) || s.RunAsUser == nil || *s.RunAsUser == 0, "may run as root")
			refute(s == nil || s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault, "has no seccomp profile")
			refute(s == nil || s.FSGroup == nil, "cannot read its secrets")
			refute(!is(p.Spec.EnableServiceLinks, false), "gets the variables of Services")
			refute(!is(p.Spec.AutomountServiceAccountToken, false), "gets a token for the Kubernetes API")
			refute(p.Spec.HostNetwork || p.Spec.HostPID || p.Spec.HostIPC, "shares a namespace of the machine")
			for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
				s := c.SecurityContext
				refute(s == nil || !is(s.AllowPrivilegeEscalation, false), "may gain rights")
				refute(s == nil || !is(s.ReadOnlyRootFilesystem, true), "can write to its image")
				refute(s == nil || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || len(s.Capabilities.Add) > 0, "has capabilities")
				for _, name := range []core.ResourceName{core.ResourceCPU, core.ResourceMemory} {
					refute(c.Resources.Requests.Name(name, "").IsZero(), "requests no %s", name)
				}
				for _, name := range []core.ResourceName{core.ResourceMemory, core.ResourceEphemeralStorage} {
					refute(c.Resources.Limits.Name(name, "").IsZero(), "has no limit of %s", name)
				}
				refute(len(c.Command) > 0, "replaces the entry point; the image has no shell")
				refute(strings.HasSuffix(c.Image, ":latest") || !regexp.MustCompile(`:v\d|@sha256:`).MatchString(c.Image), "runs the image %s", c.Image)
			}
			for _, v := range p.Spec.Volumes {
				refute(v.HostPath != nil, "mounts the machine's files")
				refute(v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil, "has no limit on %s", v.Name)
				refute(v.Secret != nil && (v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o440), "lets others read the Secret %s", v.Name)
			}
		}
	})
}

func is(have *bool, want bool) bool { return have != nil && *have == want }

// Nodes have all probes, at routes that the internal listener serves, and are restarted for /healthz only, which does
// not depend on the engines.
func TestNodesHaveProbes(t *testing.T) {
	served := read(t, "internal", "app", "internal.go")
	forEach(t, func(t *testing.T, r *release) {
		for _, p := range r.nodes() {
			for _, c := range p.Spec.Containers {
				for name, probe := range map[string]*core.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
					if probe == nil || probe.HTTPGet == nil {
						t.Errorf("%s: there is no %s probe", p.name, name)
						continue
					}
					want := map[bool]string{true: "/readyz", false: "/healthz"}[name == "readiness"]
					if got := probe.HTTPGet.Path; got != want || !strings.Contains(served, `"GET `+got+`"`) {
						t.Errorf("%s: the %s probe asks for %s", p.name, name, got)
					}
					if at := ":" + strconv.Itoa(portOf(c, probe.HTTPGet.Port.String())); at != environ(c)["STAGEDOOR_INTERNAL_LISTEN"] {
						t.Errorf("%s: the %s probe asks at %s", p.name, name, at)
					}
				}
				if timeout := time.Duration(c.ReadinessProbe.TimeoutSeconds) * time.Second; timeout <= constant(t, "readyTimeout", "internal", "app", "internal.go") {
					t.Errorf("%s: the readiness probe waits %s only", p.name, timeout)
				}
			}
		}
	})
}

// portOf returns the number of a named port; 0 if there is none.
func portOf(c core.Container, name string) int {
	for _, p := range c.Ports {
		if p.Name == name {
			return int(p.ContainerPort)
		}
	}
	return 0
}

// A node gets more time to stop than it takes at most: the delay, then the requests in progress, then background work.
func TestNodesHaveTimeToDrain(t *testing.T) {
	grace := constant(t, "shutdownGrace", "internal", "app", "run.go")
	forEach(t, func(t *testing.T, r *release) {
		for _, p := range r.nodes() {
			delay, err := time.ParseDuration(environ(p.Spec.Containers[0])["STAGEDOOR_DRAIN_DELAY"])
			if err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
			has := time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second
			if need := delay + 2*grace; has < need+5*time.Second {
				t.Errorf("%s: is killed after %s, but may need %s", p.name, has, need)
			}
		}
	})
}

// constant returns a duration of the form N*time.Second from the source.
func constant(t *testing.T, name string, file ...string) time.Duration {
	t.Helper()
	m := regexp.MustCompile(`const ` + name + ` = (\d+) \* time\.Second`).FindStringSubmatch(read(t, file...))
	if m == nil {
		t.Fatalf("there is no %s in %v", name, file)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n) * time.Second
}

func environ(c core.Container) map[string]string {
	vars := map[string]string{}
	for _, e := range c.Env {
		vars[e.Name] = e.Value
	}
	return vars
}

// setting is a setting of the server, from the struct in internal/app/config.
type setting struct{ secret, required bool }

func settings(t *testing.T) map[string]setting {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", read(t, "internal", "app", "config", "config.go"), parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]setting{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Config" {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			text, err := strconv.Unquote(f.Tag.Value)
			if err != nil {
				t.Fatal(err)
			}
			tag := reflect.StructTag(text)
			of, _ := f.Type.(*ast.SelectorExpr)
			all[tag.Get("env")] = setting{secret: of != nil && of.X.(*ast.Ident).Name == "secret", required: tag.Get("need") != ""}
		}
		return false
	})
	if len(all) < 50 || !all["DATABASE_URL"].secret || !all["STAGEDOOR_PUBLIC_URL"].required {
		t.Fatalf("the settings were not understood: %v", all)
	}
	return all
}

// Every variable is a setting that the server knows, and every required one is there. Secrets are in files: their
// values are in no variable, and the pods of a role mount exactly the keys that they read.
func TestVariablesAreSettings(t *testing.T) {
	known := settings(t)
	forEach(t, func(t *testing.T, r *release) {
		for _, p := range r.pods() {
			c := p.Spec.Containers[0]
			if len(c.EnvFrom) > 0 {
				t.Errorf("%s: takes variables from elsewhere", p.name)
			}
			seen, unread := map[string]bool{}, secretFiles(p, c)
			for _, e := range c.Env {
				if seen[e.Name] || e.Value == "" || e.ValueFrom != nil {
					t.Errorf("%s: %s has no value of its own, or has two", p.name, e.Name)
				}
				seen[e.Name] = true
				of, isFile := strings.CutSuffix(e.Name, "_FILE")
				switch plain, ok := known[e.Name]; {
				case isFile && known[of].secret:
					seen[of] = true
					delete(unread, e.Value)
					if !isMounted(p, c, e.Value) {
						t.Errorf("%s: %s names %s, which is not mounted", p.name, e.Name, e.Value)
					}
				case !ok:
					t.Errorf("%s: %s is not a setting", p.name, e.Name)
				case plain.secret:
					t.Errorf("%s: the value of the secret %s is in a variable", p.name, e.Name)
				case strings.HasPrefix(e.Value, "/") && !isMounted(p, c, e.Value):
					t.Errorf("%s: %s names %s, which is not mounted", p.name, e.Name, e.Value)
				}
			}
			for file := range unread {
				t.Errorf("%s: mounts the secret %s, but does not read it", p.name, file)
			}
			for name, s := range known {
				if s.required && !seen[name] && c.Args[0] == "serve" {
					t.Errorf("%s: %s is required", p.name, name)
				}
			}
		}
		roles := map[string]bool{}
		for _, p := range r.nodes() {
			roles[environ(p.Spec.Containers[0])["STAGEDOOR_ROLES"]] = true
			for name := range environ(p.Spec.Containers[0]) {
				if strings.Contains(name, "MIGRATION_URL") {
					t.Errorf("%s: a node gets the role that owns the tables", p.name)
				}
			}
		}
		if got := slices.Sorted(maps.Keys(roles)); !slices.Equal(got, []string{"api", "listener", "worker"}) {
			t.Errorf("the nodes have the roles %q", got)
		}
	})
}

// mountOf returns the volume with a file, and the file's path in it; nil if none has it.
func mountOf(p pod, c core.Container, file string) (*core.Volume, string) {
	for _, m := range c.VolumeMounts {
		rest, ok := strings.CutPrefix(file, m.MountPath+"/")
		if !ok {
			continue
		}
		for i := range p.Spec.Volumes {
			if v := &p.Spec.Volumes[i]; v.Name == m.Name {
				return v, rest
			}
		}
	}
	return nil, ""
}

// isMounted reports whether a file, or a folder of files, is in a volume. The keys of a Secret with a list must include
// it.
func isMounted(p pod, c core.Container, file string) bool {
	v, rest := mountOf(p, c, file+"/")
	if v == nil {
		return false
	}
	if v.Secret == nil || len(v.Secret.Items) == 0 {
		return true
	}
	return slices.ContainsFunc(v.Secret.Items, func(k core.KeyToPath) bool { return k.Path+"/" == rest && k.Key == k.Path })
}

// secretFiles returns the paths of all keys of Secrets that a container mounts one by one.
func secretFiles(p pod, c core.Container) map[string]bool {
	files := map[string]bool{}
	for _, m := range c.VolumeMounts {
		for _, v := range p.Spec.Volumes {
			if v.Name == m.Name && v.Secret != nil {
				for _, k := range v.Secret.Items {
					files[path.Join(m.MountPath, k.Path)] = true
				}
			}
		}
	}
	return files
}

// Each volume is mounted and each mount has a volume. Only /tmp and claims can be written to.
func TestVolumesAndMountsAgree(t *testing.T) {
	forEach(t, func(t *testing.T, r *release) {
		for _, p := range r.pods() {
			volumes := map[string]core.Volume{}
			for _, v := range p.Spec.Volumes {
				volumes[v.Name] = v
			}
			for _, m := range p.Spec.Containers[0].VolumeMounts {
				v, ok := volumes[m.Name]
				if !ok {
					t.Errorf("%s: there is no volume for %s", p.name, m.MountPath)
				}
				if writable := v.EmptyDir != nil || v.PersistentVolumeClaim != nil; m.ReadOnly == writable {
					t.Errorf("%s: %s is read-only: %t", p.name, m.MountPath, m.ReadOnly)
				}
				if m.SubPath != "" {
					t.Errorf("%s: %s would not follow a change of its Secret", p.name, m.MountPath)
				}
				delete(volumes, m.Name)
			}
			for name := range volumes {
				t.Errorf("%s: %s is not mounted", p.name, name)
			}
		}
	})
}

// The schema of the values has exactly the settings of the server: not those that the chart sets itself, nor development
// mode; and secrets only as names of keys.
func TestSchemaHasTheSettings(t *testing.T) {
	t.Parallel()
	type list struct{ Items struct{ Enum []string } }
	var schema struct {
		Properties struct {
			Secrets    struct{ Properties struct{ Keys list } }
			Migrations struct {
				Properties struct {
					Secret struct{ Properties struct{ Keys list } }
				}
			}
			Worker, Listener struct {
				Properties struct{ Replicas struct{ Maximum int } }
			}
		}
		Definitions struct {
			Settings struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "deploy", "chart", "values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	own := []string{"STAGEDOOR_ROLES", "STAGEDOOR_LISTEN", "STAGEDOOR_INTERNAL_LISTEN", "STAGEDOOR_DRAIN_DELAY", "STAGEDOOR_DEV"}
	owners := []string{"STAGEDOOR_KEYRING_MIGRATION_URL", "STAGEDOOR_MIGRATION_URL"}
	var plain, secret []string
	for name, s := range settings(t) {
		switch {
		case slices.Contains(own, name), slices.Contains(owners, name):
		case s.secret:
			secret = append(secret, name)
		default:
			plain = append(plain, name)
		}
	}
	same := func(what string, got, want []string) {
		t.Helper()
		slices.Sort(got)
		slices.Sort(want)
		for _, name := range want {
			if !slices.Contains(got, name) {
				t.Errorf("%s in values.schema.json: %s is missing", what, name)
			}
		}
		for _, name := range got {
			if !slices.Contains(want, name) {
				t.Errorf("%s in values.schema.json: %s is too much", what, name)
			}
		}
	}
	same("settings", slices.Collect(maps.Keys(schema.Definitions.Settings.Properties)), plain)
	same("secrets.keys", schema.Properties.Secrets.Properties.Keys.Items.Enum, secret)
	same("migrations.secret.keys", schema.Properties.Migrations.Properties.Secret.Properties.Keys.Items.Enum, owners)

	// A node without a slot has nothing to do.
	slots := func(name string, file ...string) int {
		m := regexp.MustCompile(`\b` + name + `\s+= (\d+)`).FindStringSubmatch(read(t, file...))
		if m == nil {
			t.Fatalf("there is no %s in %v", name, file)
		}
		n, _ := strconv.Atoi(m[1])
		return n
	}
	if got, want := schema.Properties.Listener.Properties.Replicas.Maximum, slots("Shards", "internal", "accounts", "account", "schedule.go"); got != want {
		t.Errorf("at most %d listeners; want the number of shards, %d", got, want)
	}
	if got, want := schema.Properties.Worker.Properties.Replicas.Maximum, slots("Buckets", "internal", "base", "id", "id.go"); got != want {
		t.Errorf("at most %d workers; want the number of buckets, %d", got, want)
	}
}
