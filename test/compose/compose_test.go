// Package compose checks deploy/compose.yaml with the loader of Docker Compose, which validates it strictly.
package compose

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const folder = "../../deploy/"

var required = regexp.MustCompile(`\$\{(\w+):\?`)

// example returns the variables of deploy/.env.example, with a value for each that is required.
func example(t *testing.T) []string {
	t.Helper()
	file, err := os.ReadFile(folder + "compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(folder + ".env.example")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(string(text)) {
		name, value, found := strings.Cut(strings.TrimSpace(line), "=")
		if !found || strings.HasPrefix(name, "#") {
			continue
		}
		for _, match := range required.FindAllStringSubmatch(string(file), -1) {
			if match[1] == name {
				value = strings.ToLower(name) + "-value"
			}
		}
		list = append(list, name+"="+value)
	}
	return list
}

func load(t *testing.T, environ []string, profiles ...string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{folder + "compose.yaml"}, cli.WithEnv(environ), cli.WithProfiles(profiles), cli.WithConsistency(true))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

// The file is valid, and the services of a profile run only with it.
func TestProfilesAddServices(t *testing.T) {
	always := []string{"backup", "caddy", "keyring", "migrate", "nats", "postgres", "stagedoord", "valkey"}
	for _, c := range []struct{ profiles, more []string }{
		{nil, nil},
		{[]string{"sandbox"}, []string{"outside", "proxy-uk", "proxy-us", "sandbox"}},
		{[]string{"login"}, []string{"dex"}},
		{[]string{"setup"}, []string{"keygen"}},
	} {
		project, err := load(t, example(t), c.profiles...)
		if err != nil {
			t.Errorf("%q: %v", c.profiles, err)
			continue
		}
		want := slices.Concat(always, c.more)
		slices.Sort(want)
		if got := project.ServiceNames(); !slices.Equal(got, want) {
			t.Errorf("%q: %q; want %q", c.profiles, got, want)
		}
	}
}

// Without a required variable, compose stops and says what to set.
func TestMissingVariablesAreNamed(t *testing.T) {
	all := example(t)
	text, err := os.ReadFile(folder + "compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, match := range required.FindAllStringSubmatch(string(text), -1) {
		names[match[1]] = true
	}
	if len(names) < 8 {
		t.Fatalf("only %d variables are required", len(names))
	}
	for name := range names {
		less := slices.DeleteFunc(slices.Clone(all), func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if _, err := load(t, less); err == nil || !strings.Contains(err.Error(), "set "+name+" in deploy/.env") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// Only Caddy can be reached from outside of the machine. No service may gain privileges, and what runs our programs is
// read-only and has no capabilities.
func TestServicesAreConfined(t *testing.T) {
	project, err := load(t, example(t), "*")
	if err != nil {
		t.Fatal(err)
	}
	for name, service := range project.Services {
		for _, port := range service.Ports {
			if name != "caddy" && port.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes %s on %q", name, port.Published, port.HostIP)
			}
		}
		if service.Privileged || service.Pid != "" || service.NetworkMode == "host" {
			t.Errorf("%s is privileged", name)
		}
		if slices.Contains([]string{"postgres", "keyring", "valkey", "nats"}, name) {
			continue
		}
		if !service.ReadOnly || !slices.Equal(service.CapDrop, []string{"ALL"}) || !slices.Contains(service.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s: read-only %t, drops %q, options %q", name, service.ReadOnly, service.CapDrop, service.SecurityOpt)
		}
	}
}

// Files that services mount exist, and volumes are declared.
func TestMountsExist(t *testing.T) {
	project, err := load(t, example(t), "*")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for name, service := range project.Services {
		for _, volume := range service.Volumes {
			if volume.Type != types.VolumeTypeBind {
				continue
			}
			count++
			if info, err := os.Stat(volume.Source); err != nil || info.IsDir() {
				t.Errorf("%s mounts %s: %v", name, volume.Source, err)
			}
		}
	}
	if count < 5 {
		t.Errorf("only %d files are mounted", count)
	}
}
