package app_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// The compose file gives the owners' passwords to the databases and to the migration only, and no password to two roles.
// The example of its settings lists all that it requires.
func TestComposeKeepsTheOwnersPasswordsFromNodes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(testenv.Path(t, "deploy", "compose.yaml"))
	must.OK(t, err)
	var file struct {
		Services map[string]struct {
			Environment map[string]string
		}
	}
	must.OK(t, yaml.Unmarshal(text, &file))
	users := func(variable string) (list []string) {
		for name, service := range file.Services {
			for _, value := range service.Environment {
				if strings.Contains(value, "${"+variable+"}") || strings.Contains(value, "${"+variable+":") {
					list = append(list, name)
				}
			}
		}
		slices.Sort(list)
		return list
	}
	for variable, want := range map[string][]string{
		"POSTGRES_PASSWORD":      {"backup", "migrate", "postgres"},
		"KEYRING_PASSWORD":       {"backup", "keyring", "migrate"},
		"STAGEDOOR_APP_PASSWORD": {"migrate", "postgres", "stagedoord"},
		"KEYRING_APP_PASSWORD":   {"keyring", "migrate", "stagedoord"},
	} {
		if got := users(variable); !slices.Equal(got, want) {
			t.Errorf("%s is given to %q; want %q", variable, got, want)
		}
	}
	example, err := os.ReadFile(testenv.Path(t, "deploy", ".env.example"))
	must.OK(t, err)
	for _, required := range regexp.MustCompile(`\$\{(\w+):\?`).FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains("\n"+string(example), "\n"+required[1]+"=") {
			t.Errorf("deploy/.env.example lacks %s", required[1])
		}
	}
}

// The settings file of the packages names only settings that exist, and with those of its examples a node starts.
func TestSettingsOfThePackagesAreAccepted(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(testenv.Path(t, "deploy", "systemd", "stagedoord.env"))
	must.OK(t, err)
	environ := []string{"STAGEDOOR_OIDC_ISSUER=https://id.example.com", "STAGEDOOR_OIDC_CLIENT_ID=stagedoor", "STAGEDOOR_OIDC_CLIENT_SECRET=secret"}
	for _, secret := range []string{"STAGEDOOR_ADMIN_TOKEN", "STAGEDOOR_IP_HASH_KEY"} {
		environ = append(environ, secret+"="+strings.Repeat("x", 32))
	}
	examples := regexp.MustCompile(`(?m)^#?([A-Z_]+)=(.*)$`).FindAllStringSubmatch(string(text), -1)
	for _, line := range examples {
		if line[2] != "" {
			environ = append(environ, line[1]+"="+line[2])
		} else if !slices.ContainsFunc(environ, func(pair string) bool { return strings.HasPrefix(pair, line[1]+"=") }) {
			t.Errorf("the test has no value for %s", line[1])
		}
	}
	if code, stdout, stderr := run(t, environ, "config"); code != 0 || len(examples) < 10 {
		t.Errorf("%d examples\n%s%s", len(examples), stderr, stdout)
	}
}

// Every variable of the product that a file for operators names is a setting: a node refuses to start with another one.
func TestDeployFilesNameOnlySettings(t *testing.T) {
	t.Parallel()
	files := []string{testenv.Path(t, "deploy", "compose.yaml"), testenv.Path(t, "deploy", ".env.example")}
	for _, pattern := range []string{"vm/*", "vm/systemd/*", "systemd/*"} {
		found, err := filepath.Glob(testenv.Path(t, "deploy", filepath.FromSlash(pattern)))
		must.OK(t, err)
		files = append(files, found...)
	}
	count := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a folder
		}
		for _, name := range regexp.MustCompile(`\bSTAGEDOOR_[A-Z0-9_]+`).FindAllString(string(text), -1) {
			if name == "STAGEDOOR_APP_PASSWORD" { // of compose, which puts it into DATABASE_URL
				continue
			}
			count++
			if _, err := config.Read([]string{name + "=x"}); err == nil || strings.Contains(err.Error(), name+" is not a setting") {
				t.Errorf("%s: %s is not a setting", file, name)
			}
		}
	}
	if count < 100 {
		t.Errorf("only %d names were found", count)
	}
}
