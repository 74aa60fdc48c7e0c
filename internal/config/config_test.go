package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/config"
)

func good() map[string]string {
	return map[string]string{
		"DATABASE_URL": "postgres://u:hunter2@127.0.0.1/x", "REDIS_URL": "redis://:hunter2@127.0.0.1:6379", "NATS_URL": "nats://127.0.0.1:4222",
		"STAGEDOOR_PUBLIC_URL": "https://api.example.com/", "STAGEDOOR_ADMIN_TOKEN": strings.Repeat("hunter2x", 4), "STAGEDOOR_IP_HASH_KEY": strings.Repeat("hunter2y", 4),
	}
}

func environ(vars map[string]string) []string {
	var list []string
	for k, v := range vars {
		list = append(list, k+"="+v)
	}
	return list
}

func TestReadFillsInDefaults(t *testing.T) {
	t.Parallel()
	vars := good()
	vars["STAGEDOOR_API_KEY"] = "sd_live_x" // the command line's, in the same environment
	vars["PATH"] = "/bin"
	c, err := config.Read(environ(vars))
	if err != nil {
		t.Fatal(err)
	}
	if c.PublicURL != "https://api.example.com" || c.Listen != ":8080" || len(c.Roles) != 3 || c.MaxConns < 2 || c.Node == "" || c.RedisTimeout.Milliseconds() != 25 {
		t.Errorf("%+v", c)
	}
}

// A wrong or misspelt setting stops the start, with its name and what to do, and no secret in the message.
func TestReadSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set, to string
		want    []string
	}{
		"misspelt":     {"STAGEDOOR_LISTN", ":1", []string{"STAGEDOOR_LISTN", "did you mean STAGEDOOR_LISTEN?"}},
		"missing":      {"DATABASE_URL", "", []string{"DATABASE_URL is not set", "postgres://"}},
		"role":         {"STAGEDOOR_ROLES", "api,cook", []string{`"cook"`, "api, worker, listener"}},
		"duration":     {"STAGEDOOR_DRAIN_DELAY", "soon", []string{"STAGEDOOR_DRAIN_DELAY", "5s"}},
		"out of range": {"STAGEDOOR_REDIS_TIMEOUT", "1h", []string{"STAGEDOOR_REDIS_TIMEOUT", "1ms to 10s"}},
		"plain http":   {"STAGEDOOR_PUBLIC_URL", "http://api.example.com", []string{"plain http", "STAGEDOOR_DEV"}},
		"no url":       {"STAGEDOOR_PUBLIC_URL", "api.example.com", []string{"STAGEDOOR_PUBLIC_URL", "https://api.example.com"}},
		"short secret": {"STAGEDOOR_ADMIN_TOKEN", "hunter2", []string{"STAGEDOOR_ADMIN_TOKEN", "openssl rand"}},
		"level":        {"STAGEDOOR_LOG_LEVEL", "loud", []string{"STAGEDOOR_LOG_LEVEL", "debug"}},
		"network":      {"STAGEDOOR_TRUSTED_PROXIES", "10.0.0.0", []string{"STAGEDOOR_TRUSTED_PROXIES", "10.0.0.0/8"}},
		"number":       {"STAGEDOOR_DATABASE_MAX_CONNS", "many", []string{"STAGEDOOR_DATABASE_MAX_CONNS"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vars := good()
			vars[c.set] = c.to
			_, err := config.Read(environ(vars))
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a secret is in %q", err)
			}
		})
	}
}

// Everything that is wrong is said at once.
func TestReadListsEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := config.Read([]string{"STAGEDOOR_LOG_LEVEL=loud", "STAGEDOOR_FOO=1"})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"DATABASE_URL", "REDIS_URL", "NATS_URL", "STAGEDOOR_PUBLIC_URL", "STAGEDOOR_ADMIN_TOKEN", "STAGEDOOR_LOG_LEVEL", "STAGEDOOR_FOO"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not mentioned", want)
		}
	}
}

// Every setting says what it is, and no secret is shown.
func TestVariablesAreDocumentedAndMasked(t *testing.T) {
	t.Parallel()
	c, err := config.Read(environ(good()))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range config.Variables() {
		if v.Name == "" || v.Doc == "" {
			t.Errorf("%+v is not documented", v)
		}
		if strings.Contains(v.Show(c), "hunter2") {
			t.Errorf("%s shows its secret", v.Name)
		}
	}
	if strings.Contains(fmt.Sprintf("%+v %#v", c, c), "hunter2") {
		t.Error("the settings print their secrets")
	}
}
