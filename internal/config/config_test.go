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
		"STAGEDOOR_PUBLIC_URL": "https://api.example.com/", "STAGEDOOR_ADMIN_TOKEN": strings.Repeat("hunter2x", 4), "STAGEDOOR_IP_HASH_KEY": strings.Repeat("hunter2y", 4), "STAGEDOOR_KMS": "local:/etc/stagedoor/keyset.json",
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
	if c.PublicURL != "https://api.example.com" || c.Listen != ":8080" || len(c.Roles) != 3 || c.MaxConns < 2 || c.Node == "" || c.RedisTimeout.Milliseconds() != 25 || c.SandboxURL != "http://127.0.0.1:18200" {
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
		"no origin":    {"STAGEDOOR_SANDBOX_URL", "127.0.0.1:18200", []string{"STAGEDOOR_SANDBOX_URL", "http://127.0.0.1:18200"}},
		"short secret": {"STAGEDOOR_ADMIN_TOKEN", "hunter2", []string{"STAGEDOOR_ADMIN_TOKEN", "openssl rand"}},
		"plain issuer": {"STAGEDOOR_OIDC_ISSUER", "http://id.example.com", []string{"STAGEDOOR_OIDC_ISSUER is plain http", "STAGEDOOR_DEV"}},
		"no issuer":    {"STAGEDOOR_OIDC_ISSUER", "accounts.google.com", []string{"STAGEDOOR_OIDC_ISSUER", "https://accounts.google.com"}},
		"no client":    {"STAGEDOOR_OIDC_ISSUER", "https://id.example.com", []string{"STAGEDOOR_OIDC_CLIENT_SECRET"}},
		"lone client":  {"STAGEDOOR_OIDC_CLIENT_SECRET", "hunter2", []string{"STAGEDOOR_OIDC_ISSUER is not set"}},
		"signup":       {"STAGEDOOR_SIGNUP", "maybe", []string{"STAGEDOOR_SIGNUP", "open or closed"}},
		"level":        {"STAGEDOOR_LOG_LEVEL", "loud", []string{"STAGEDOOR_LOG_LEVEL", "debug"}},
		"network":      {"STAGEDOOR_TRUSTED_PROXIES", "10.0.0.0", []string{"STAGEDOOR_TRUSTED_PROXIES", "10.0.0.0/8"}},
		"region":       {"STAGEDOOR_EGRESS", "usa=http://u:hunter2@proxy:1", []string{"STAGEDOOR_EGRESS", "us=http://"}},
		"proxy":        {"STAGEDOOR_EGRESS", "us=http://u:hunter2@proxy", []string{"STAGEDOOR_EGRESS", "proxy 1 of region us", "http://user:password@host:port"}},
		"check":        {"STAGEDOOR_EGRESS_CHECK", "example.com", []string{"STAGEDOOR_EGRESS_CHECK", "https://platform.example"}},
		"idle":         {"STAGEDOOR_EGRESS_MAX_IDLE", "0", []string{"STAGEDOOR_EGRESS_MAX_IDLE", "1 or more"}},
		"deny":         {"STAGEDOOR_WEBHOOK_DENY", "52.1.0.0", []string{"STAGEDOOR_WEBHOOK_DENY", "10.0.0.0/8"}},
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

// The sandbox is an origin: what stands behind it would be lost, or sent along, when paths are added.
func TestSandboxURLIsAnOrigin(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://127.0.0.1:18200": "http://127.0.0.1:18200", "https://sandbox.example/": "https://sandbox.example",
		"http://sandbox/api": "", "http://sandbox//": "", "http://sandbox?x=1": "", "http://sandbox?": "", "http://sandbox#top": "", "http://me:hunter2@sandbox": "",
		"ftp://sandbox": "", "sandbox": "", "//sandbox": "", "http://": "", "http://:18200": "", "http://sandbox:port": "", "http://sand box": "",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			vars := good()
			vars["STAGEDOOR_SANDBOX_URL"] = text
			c, err := config.Read(environ(vars))
			if want == "" && err == nil {
				t.Errorf("accepted as %s", c.SandboxURL)
			}
			if want != "" && (err != nil || c.SandboxURL != want) {
				t.Errorf("read as %q, %v; want %s", c.SandboxURL, err, want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a secret is in %q", err)
			}
		})
	}
}

// What leaves, and how, is read from the settings; none of it is needed to start.
func TestReadTakesInEgress(t *testing.T) {
	t.Parallel()
	vars := good()
	c, err := config.Read(environ(vars))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := c.EgressConfig(); err != nil || len(out.Regions) != 0 || out.MaxIdle != 20000 {
		t.Errorf("%+v, %v", out, err)
	}
	vars["STAGEDOOR_EGRESS"] = "us=http://u:hunter2@10.0.0.1:3128,socks5://10.0.0.2:1080 uk=https://10.0.1.1:443"
	vars["STAGEDOOR_EGRESS_CHECK"] = "https://www.example.com,https://www.example.org"
	vars["STAGEDOOR_WEBHOOK_DENY"] = "52.1.0.0/16,2a05:d000::/25"
	if c, err = config.Read(environ(vars)); err != nil {
		t.Fatal(err)
	}
	if out, err := c.EgressConfig(); err != nil || len(out.Regions) != 2 || out.Regions[0].Name != "us" || len(out.Regions[0].Proxies) != 2 {
		t.Errorf("%+v, %v", out, err)
	}
	if deny, err := c.WebhookDenied(); err != nil || len(deny) != 2 {
		t.Errorf("%v, %v", deny, err)
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
