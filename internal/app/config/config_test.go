package config_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
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
	vars["STAGEDOOR_API_KEY"] = "sd_live_x" // A variable of the command line.
	vars["PATH"] = "/bin"
	c, err := config.Read(environ(vars))
	must.OK(t, err)
	if c.PublicURL != "https://api.example.com" || c.Listen != ":8080" || len(c.Roles) != 3 || c.MaxConns < 2 || c.Node == "" || c.RedisTimeout.Milliseconds() != 25 || c.SandboxURL != "http://127.0.0.1:18200" {
		t.Errorf("%+v", c)
	}
}

// A wrong or misspelt setting stops the start. The message has its name and what to do, and no secret.
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
		"plain http":   {"STAGEDOOR_PUBLIC_URL", "http://api.example.com", []string{"STAGEDOOR_PUBLIC_URL is plain http", "use https"}},
		"plain pages":  {"STAGEDOOR_CONNECT_URL", "http://connect.example.com", []string{"STAGEDOOR_CONNECT_URL is plain http", "use https"}},
		"plain upper":  {"STAGEDOOR_CONNECT_URL", "HTTP://connect.example.com", []string{"STAGEDOOR_CONNECT_URL is plain http", "use https"}},
		"no url":       {"STAGEDOOR_PUBLIC_URL", "api.example.com", []string{"STAGEDOOR_PUBLIC_URL", "https://api.example.com"}},
		"no origin":    {"STAGEDOOR_SANDBOX_URL", "127.0.0.1:18200", []string{"STAGEDOOR_SANDBOX_URL", "http://127.0.0.1:18200"}},
		"short secret": {"STAGEDOOR_ADMIN_TOKEN", "hunter2", []string{"STAGEDOOR_ADMIN_TOKEN", "openssl rand"}},
		"plain issuer": {"STAGEDOOR_OIDC_ISSUER", "http://id.example.com", []string{"STAGEDOOR_OIDC_ISSUER is plain http", "use https"}},
		"no issuer":    {"STAGEDOOR_OIDC_ISSUER", "accounts.google.com", []string{"STAGEDOOR_OIDC_ISSUER", "https://accounts.google.com"}},
		"no client":    {"STAGEDOOR_OIDC_ISSUER", "https://id.example.com", []string{"STAGEDOOR_OIDC_CLIENT_SECRET"}},
		"lone console": {"STAGEDOOR_OPERATORS_OIDC_CLIENT_ID", "console", []string{"STAGEDOOR_OPERATORS_OIDC_ISSUER is not set"}},
		"no role":      {"STAGEDOOR_OPERATORS", "ana@example.com", []string{"STAGEDOOR_OPERATORS", "has no role"}},
		"no provider":  {"STAGEDOOR_OPERATORS", "ana@example.com=owner", []string{"STAGEDOOR_OPERATORS_OIDC_ISSUER"}},
		"plain ops":    {"STAGEDOOR_OPERATORS_URL", "http://ops.example.com", []string{"STAGEDOOR_OPERATORS_URL is plain http", "use https"}},
		"lone client":  {"STAGEDOOR_OIDC_CLIENT_SECRET", "hunter2", []string{"STAGEDOOR_OIDC_ISSUER is not set"}},
		"signup":       {"STAGEDOOR_SIGNUP", "maybe", []string{"STAGEDOOR_SIGNUP", "open or closed"}},
		"auth time":    {"STAGEDOOR_OIDC_AUTH_TIME", "maybe", []string{"STAGEDOOR_OIDC_AUTH_TIME", "optional or required"}},
		"level":        {"STAGEDOOR_LOG_LEVEL", "loud", []string{"STAGEDOOR_LOG_LEVEL", "debug"}},
		"network":      {"STAGEDOOR_TRUSTED_PROXIES", "10.0.0.0", []string{"STAGEDOOR_TRUSTED_PROXIES", "10.0.0.0/8"}},
		"region":       {"STAGEDOOR_EGRESS", "usa=http://u:hunter2@proxy:1", []string{"STAGEDOOR_EGRESS", "us=http://"}},
		"regions":      {"STAGEDOOR_REGIONS", "us,usa", []string{"STAGEDOOR_REGIONS", "two-letter"}},
		"proxy":        {"STAGEDOOR_EGRESS", "us=http://u:hunter2@proxy", []string{"STAGEDOOR_EGRESS", "proxy 1 of region us", "http://user:password@host:port"}},
		"check":        {"STAGEDOOR_EGRESS_CHECK", "example.com", []string{"STAGEDOOR_EGRESS_CHECK", "https://platform.example"}},
		"idle":         {"STAGEDOOR_EGRESS_MAX_IDLE", "0", []string{"STAGEDOOR_EGRESS_MAX_IDLE", "1 or more"}},
		"deny":         {"STAGEDOOR_WEBHOOK_DENY", "52.1.0.0", []string{"STAGEDOOR_WEBHOOK_DENY", "10.0.0.0/8"}},
		"collector":    {"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"}},
		"traces":       {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://x:hunter2@collector/", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4318/v1/traces"}},
		"exporter":     {"OTEL_TRACES_EXPORTER", "jaeger", []string{"OTEL_TRACES_EXPORTER", "otlp"}},
		"sample":       {"STAGEDOOR_LOG_SAMPLE", "info=10", []string{"STAGEDOOR_LOG_SAMPLE", "info=0.1"}},
		"no errors":    {"STAGEDOOR_LOG_SAMPLE", "error=0.1", []string{"STAGEDOOR_LOG_SAMPLE", "always written"}},
		"lone cert":    {"STAGEDOOR_REDIS_CERT_FILE", "/x.pem", []string{"STAGEDOOR_REDIS_CERT_FILE and STAGEDOOR_REDIS_KEY_FILE belong together"}},
		"lone key":     {"STAGEDOOR_NATS_KEY_FILE", "/x.pem", []string{"STAGEDOOR_NATS_CERT_FILE and STAGEDOOR_NATS_KEY_FILE belong together"}},
		"contact":      {"STAGEDOOR_SECURITY_CONTACT", "security@example.com", []string{"STAGEDOOR_SECURITY_CONTACT", "mailto:security@example.com"}},
		"policy":       {"STAGEDOOR_SECURITY_POLICY", "http://example.com", []string{"STAGEDOOR_SECURITY_POLICY", "https://example.com/security"}},
		"plain keys":   {"STAGEDOOR_SECRET_SCANNING_KEYS", "http://example.com/keys", []string{"STAGEDOOR_SECRET_SCANNING_KEYS", "https://api.github.com"}},
		"short token":  {"STAGEDOOR_METRICS_TOKEN", "hunter2", []string{"STAGEDOOR_METRICS_TOKEN", "openssl rand"}},
		"objects":      {"STAGEDOOR_OBJECTS", "objects", []string{"STAGEDOOR_OBJECTS", "/mnt/stagedoor/objects or s3://"}},
		"object keys":  {"STAGEDOOR_OBJECTS_SECRET_KEY", "hunter2", []string{"STAGEDOOR_OBJECTS is not set"}},
		"number":       {"STAGEDOOR_DATABASE_MAX_CONNS", "many", []string{"STAGEDOOR_DATABASE_MAX_CONNS"}},
		"connections":  {"STAGEDOOR_DATABASE_MAX_CONNS", "3", []string{"STAGEDOOR_DATABASE_MAX_CONNS is 3", "4 or more"}},
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

// The sandbox URL is an origin: anything after it would be lost, or sent along, when paths are added.
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

// The settings of egress are read; none of them is required.
func TestReadReadsEgress(t *testing.T) {
	t.Parallel()
	vars := good()
	c, err := config.Read(environ(vars))
	must.OK(t, err)
	if out, err := c.EgressConfig(); err != nil || len(out.Regions) != 0 || out.MaxIdle != 20000 {
		t.Errorf("%+v, %v", out, err)
	}
	vars["STAGEDOOR_EGRESS"] = "us=http://u:hunter2@10.0.0.1:3128,socks5://10.0.0.2:1080 uk=https://10.0.1.1:443"
	vars["STAGEDOOR_EGRESS_CHECK"] = "https://www.example.com,https://www.example.org"
	vars["STAGEDOOR_WEBHOOK_DENY"] = "52.1.0.0/16,2a05:d000::/25"
	c, err = config.Read(environ(vars))
	must.OK(t, err)
	if out, err := c.EgressConfig(); err != nil || len(out.Regions) != 2 || out.Regions[0].Name != "us" || len(out.Regions[0].Proxies) != 2 {
		t.Errorf("%+v, %v", out, err)
	}
	if deny, err := c.WebhookDenied(); err != nil || len(deny) != 2 {
		t.Errorf("%v, %v", deny, err)
	}
	vars["STAGEDOOR_EGRESS_FILE"] = "/etc/stagedoor/egress"
	if _, err := config.Read(environ(vars)); err == nil || !strings.Contains(err.Error(), "STAGEDOOR_EGRESS and STAGEDOOR_EGRESS_FILE are both set") {
		t.Error(err)
	}
}

// All errors are reported together.
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

// Every setting is documented, and no secret is shown.
func TestVariablesAreDocumentedAndMasked(t *testing.T) {
	t.Parallel()
	c, err := config.Read(environ(good()))
	must.OK(t, err)
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

// development is a minimal environment in which STAGEDOOR_DEV is accepted: everything is on this machine.
func development() map[string]string {
	vars := good()
	vars["STAGEDOOR_DEV"] = "true"
	vars["STAGEDOOR_PUBLIC_URL"] = "http://127.0.0.1:8080"
	vars["STAGEDOOR_LISTEN"] = "127.0.0.1:8080"
	return vars
}

// The development sign-in asks for no password, so it must not be reachable from another machine.
func TestDevelopmentIsRefusedUnlessEveryAddressIsLoopback(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ set, to, instead string }{
		{"STAGEDOOR_PUBLIC_URL", "https://api.example.com", "http://127.0.0.1:8080"},
		{"STAGEDOOR_PUBLIC_URL", "http://192.168.1.7:8080", "http://127.0.0.1:8080"},
		{"STAGEDOOR_PUBLIC_URL", "https://127.0.0.1.example.com", "http://127.0.0.1:8080"},
		{"STAGEDOOR_PUBLIC_URL", "http://localhost@api.example.com", "http://127.0.0.1:8080"},
		{"STAGEDOOR_CONNECT_URL", "https://connect.example.com", "http://127.0.0.1:8080"},
		{"STAGEDOOR_LISTEN", ":8080", "127.0.0.1:8080"},
		{"STAGEDOOR_LISTEN", "0.0.0.0:8080", "127.0.0.1:8080"},
		{"STAGEDOOR_LISTEN", "[::]:8080", "127.0.0.1:8080"},
		{"STAGEDOOR_LISTEN", "api.example.com:8080", "127.0.0.1:8080"},
		{"STAGEDOOR_LISTEN", "127.0.0.1", "127.0.0.1:8080"},
		{"STAGEDOOR_INTERNAL_LISTEN", ":8081", "127.0.0.1:8081"},
		{"STAGEDOOR_OIDC_ISSUER", "https://accounts.google.com", "http://127.0.0.1:5556"},
	} {
		t.Run(c.set+"="+c.to, func(t *testing.T) {
			t.Parallel()
			vars := development()
			vars[c.set] = c.to
			vars["STAGEDOOR_OIDC_ISSUER"] = cmp.Or(vars["STAGEDOOR_OIDC_ISSUER"], "http://localhost:5556")
			vars["STAGEDOOR_OIDC_CLIENT_ID"], vars["STAGEDOOR_OIDC_CLIENT_SECRET"] = "stagedoor", "hunter2"
			_, err := config.Read(environ(vars))
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range []string{"STAGEDOOR_DEV", c.set, c.instead} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
	// The default of STAGEDOOR_LISTEN is every address of the machine.
	vars := development()
	delete(vars, "STAGEDOOR_LISTEN")
	if _, err := config.Read(environ(vars)); err == nil || !strings.Contains(err.Error(), "STAGEDOOR_LISTEN") {
		t.Errorf("the default of STAGEDOOR_LISTEN was accepted in development: %v", err)
	}
}

func TestDevelopmentIsAcceptedOnLoopback(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]map[string]string{
		"plain":    {},
		"ipv6":     {"STAGEDOOR_PUBLIC_URL": "http://[::1]:8080", "STAGEDOOR_LISTEN": "[::1]:8080"},
		"name":     {"STAGEDOOR_PUBLIC_URL": "http://localhost:8080", "STAGEDOOR_LISTEN": "localhost:8080"},
		"any port": {"STAGEDOOR_LISTEN": "127.0.0.1:0", "STAGEDOOR_INTERNAL_LISTEN": "127.0.2.1:0"},
		"connect":  {"STAGEDOOR_CONNECT_URL": "http://127.0.0.1:9000"},
		"issuer":   {"STAGEDOOR_OIDC_ISSUER": "http://127.0.0.1:5556/dex", "STAGEDOOR_OIDC_CLIENT_ID": "stagedoor", "STAGEDOOR_OIDC_CLIENT_SECRET": "hunter2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vars := development()
			maps.Copy(vars, change)
			if c, err := config.Read(environ(vars)); err != nil || !c.Dev || c.Signup != "open" {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
}

// Kubernetes sets variables for every Service of a namespace in each container. A Service named stagedoor, or
// stagedoor-api, must not stop the server.
func TestVariablesOfKubernetesServicesAreIgnored(t *testing.T) {
	t.Parallel()
	vars := good()
	maps.Copy(vars, map[string]string{
		"STAGEDOOR_SERVICE_HOST": "10.96.12.7", "STAGEDOOR_SERVICE_PORT": "8080", "STAGEDOOR_SERVICE_PORT_HTTP": "8080", "STAGEDOOR_SERVICE_PORT_HTTP_ALT": "8081",
		"STAGEDOOR_PORT": "tcp://10.96.12.7:8080", "STAGEDOOR_PORT_8080_TCP": "tcp://10.96.12.7:8080", "STAGEDOOR_PORT_8080_TCP_PROTO": "tcp",
		"STAGEDOOR_PORT_8080_TCP_PORT": "8080", "STAGEDOOR_PORT_8080_TCP_ADDR": "10.96.12.7",
		"STAGEDOOR_PORT_53_UDP": "udp://10.96.12.7:53", "STAGEDOOR_PORT_53_UDP_PROTO": "udp", "STAGEDOOR_PORT_53_UDP_PORT": "53", "STAGEDOOR_PORT_53_UDP_ADDR": "10.96.12.7",
		"STAGEDOOR_API_SERVICE_HOST": "fd00::7", "STAGEDOOR_API_SERVICE_PORT": "443", "STAGEDOOR_API_PORT": "tcp://[fd00::7]:443",
		"STAGEDOOR_API_V2_PORT_443_TCP": "tcp://[fd00::7]:443", "STAGEDOOR_API_V2_PORT_443_TCP_ADDR": "fd00::7",
	})
	if _, err := config.Read(environ(vars)); err != nil {
		t.Error(err)
	}
}

func TestVariablesThatOnlyResembleKubernetesServicesAreRefused(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"STAGEDOOR_PORT": "8080", "STAGEDOOR_HOST": "10.96.12.7", "STAGEDOOR_SERVICE_HOST": "api.example.com", "STAGEDOOR_SERVICE_PORT": "http",
		"STAGEDOOR_SERVICE_HOSTS": "10.96.12.7", "STAGEDOOR_SERVICE_PORT_": "8080", "STAGEDOOR_PORT_8080": "tcp://10.96.12.7:8080",
		"STAGEDOOR_PORT_HTTP_TCP": "tcp://10.96.12.7:8080", "STAGEDOOR_PORT_8080_TCP": "8080", "STAGEDOOR_PORT_8080_TCP_PROTO": "http",
		"STAGEDOOR_PORT_8080_TCP_HOST": "10.96.12.7", "STAGEDOOR_LISTEN_PORT": "8080", "STAGEDOOR__SERVICE_HOST": "10.96.12.7",
		"STAGEDOOR_PORT_8080_UDP": "tcp://10.96.12.7:8080", "STAGEDOOR_SERVICE_PORT_HTTP": "8080/tcp",
	} {
		t.Run(name+"="+value, func(t *testing.T) {
			t.Parallel()
			vars := good()
			vars[name] = value
			if _, err := config.Read(environ(vars)); err == nil || !strings.Contains(err.Error(), name+" is not a setting") {
				t.Errorf("read with %v", err)
			}
		})
	}
}

// Traces are exported if there is an address, unless OpenTelemetry's variables switch them off.
func TestTracesAreExportedToAnAddress(t *testing.T) {
	t.Parallel()
	const all, traces = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	for _, c := range []struct {
		vars map[string]string
		want bool
	}{
		{map[string]string{}, false},
		{map[string]string{all: "http://127.0.0.1:4318"}, true},
		{map[string]string{traces: "https://collector.example/ingest"}, true},
		{map[string]string{all: "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"}, false},
		{map[string]string{all: "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"}, false},
	} {
		vars := good()
		maps.Copy(vars, c.vars)
		got, err := config.Read(environ(vars))
		if err != nil || got.ExportsTraces() != c.want {
			t.Errorf("%v: %t, %v", c.vars, got.ExportsTraces(), err)
		}
	}
}

// Every secret setting can come from a file, so that it is not in the environment of the process.
func TestSecretsComeFromFiles(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"DATABASE_URL": "postgres://u:hunter2@127.0.0.1/file", "STAGEDOOR_MIGRATION_URL": "postgres://owner:hunter2@127.0.0.1/file", "REDIS_URL": "redis://:hunter2@127.0.0.1:6379/1", "NATS_URL": "nats://hunter2@127.0.0.1:4222",
		"STAGEDOOR_METRICS_TOKEN": strings.Repeat("hunter2m", 4), "STAGEDOOR_OPERATORS_OIDC_CLIENT_SECRET": "hunter2p",
		"STAGEDOOR_IP_HASH_KEY": strings.Repeat("hunter2i", 4), "STAGEDOOR_OIDC_CLIENT_SECRET": "hunter2o", "STAGEDOOR_KEYRING_URL": "postgres://u:hunter2@127.0.0.1/keys", "STAGEDOOR_KEYRING_MIGRATION_URL": "postgres://owner:hunter2@127.0.0.1/keys",
		"STAGEDOOR_OAUTH_CLIENTS":      "sandbox=client:hunter2",
		"STAGEDOOR_OBJECTS_ACCESS_KEY": "hunter2k", "STAGEDOOR_OBJECTS_SECRET_KEY": "hunter2s",
		"STAGEDOOR_USAGE_WEBHOOK_SECRET": strings.Repeat("hunter2u", 4),
		"STAGEDOOR_SMTP_URL":             "smtp://u:hunter2@mail.example.com?from=no-reply@example.com",
		"STAGEDOOR_KMS_TOKEN":            "", "STAGEDOOR_ADMIN_TOKEN": "", "STAGEDOOR_EGRESS": "", // their files are other settings, which are read again
	}
	dir := t.TempDir()
	vars := good()
	vars["STAGEDOOR_OIDC_ISSUER"], vars["STAGEDOOR_OIDC_CLIENT_ID"], vars["STAGEDOOR_OBJECTS"] = "https://id.example.com", "client", "s3://bucket"
	vars["STAGEDOOR_USAGE_WEBHOOK"] = "https://billing.example.com/usage"
	vars["STAGEDOOR_OPERATORS_OIDC_ISSUER"], vars["STAGEDOOR_OPERATORS_OIDC_CLIENT_ID"] = "https://id.example.com", "console"
	vars["STAGEDOOR_ADMIN_TOKEN"], vars["STAGEDOOR_OPERATORS"] = "", "ana@example.com=owner"
	for _, v := range config.Variables() {
		value, listed := values[v.Name]
		if v.Secret != listed {
			t.Errorf("%s: a secret is %t, but this test has a value for it: %t", v.Name, v.Secret, listed)
		}
		if value == "" {
			continue
		}
		file := filepath.Join(dir, v.Name)
		must.OK(t, os.WriteFile(file, []byte(value+"\n"), 0o600))
		delete(vars, v.Name)
		vars[v.Name+"_FILE"] = file
	}
	c, err := config.Read(environ(vars))
	must.OK(t, err)
	fields := reflect.ValueOf(c)
	for i := range fields.NumField() {
		if s, ok := fields.Field(i).Interface().(secret.String); ok {
			if name := fields.Type().Field(i).Tag.Get("env"); s.Reveal() != values[name] {
				t.Errorf("%s was not read from its file", name)
			}
		}
	}
}

// A file that cannot be used stops the start, and so does a second source of the same secret.
func TestSecretFilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty, full := filepath.Join(dir, "empty"), filepath.Join(dir, "full")
	must.OK(t, os.WriteFile(empty, []byte("\n"), 0o600))
	must.OK(t, os.WriteFile(full, []byte(strings.Repeat("hunter2z", 4)), 0o600))
	for name, c := range map[string]struct {
		set  map[string]string
		want string
	}{
		"missing":   {map[string]string{"STAGEDOOR_ADMIN_TOKEN": "", "STAGEDOOR_ADMIN_TOKEN_FILE": dir + "/none"}, "STAGEDOOR_ADMIN_TOKEN_FILE: open "},
		"empty":     {map[string]string{"STAGEDOOR_ADMIN_TOKEN": "", "STAGEDOOR_ADMIN_TOKEN_FILE": empty}, "STAGEDOOR_ADMIN_TOKEN_FILE names an empty file"},
		"both":      {map[string]string{"STAGEDOOR_ADMIN_TOKEN_FILE": full}, "STAGEDOOR_ADMIN_TOKEN and STAGEDOOR_ADMIN_TOKEN_FILE are both set"},
		"no secret": {map[string]string{"STAGEDOOR_LISTEN_FILE": full}, "STAGEDOOR_LISTEN_FILE is not a setting"},
	} {
		vars := good()
		maps.Copy(vars, c.set)
		_, err := config.Read(environ(vars))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Clear text to another machine is refused, unless the host is listed. Development mode only warns.
func TestClearTextIsRefused(t *testing.T) {
	t.Parallel()
	plain := map[string]string{
		"DATABASE_URL": "postgres://u:hunter2@db.internal/x", "STAGEDOOR_MIGRATION_URL": "postgres://u:hunter2@owner.internal/x", "STAGEDOOR_KEYRING_URL": "postgres://u:hunter2@keys.internal/x?sslmode=disable",
		"REDIS_URL": "redis://:hunter2@redis.internal:6379", "NATS_URL": "nats://hunter2@10.0.0.7:4222",
	}
	secure := map[string]string{
		"DATABASE_URL": "postgres://u:hunter2@db.internal/x?sslmode=verify-full", "STAGEDOOR_MIGRATION_URL": "postgres://u:hunter2@owner.internal/x?sslmode=require", "STAGEDOOR_KEYRING_URL": "postgres://u:hunter2@keys.internal/x?sslmode=require",
		"REDIS_URL": "rediss://:hunter2@redis.internal:6379", "NATS_URL": "tls://hunter2@10.0.0.7:4222",
	}
	local := map[string]string{
		"DATABASE_URL": "postgres://u:hunter2@/x?host=/run/postgresql", "STAGEDOOR_MIGRATION_URL": "postgres://u:hunter2@[::1]/x", "STAGEDOOR_KEYRING_URL": "postgres://u:hunter2@localhost/x",
		"REDIS_URL": "unix:///run/redis.sock", "NATS_URL": "nats://[::1]:4222",
	}
	hosts := map[string]string{
		"DATABASE_URL": "db.internal", "STAGEDOOR_MIGRATION_URL": "owner.internal", "STAGEDOOR_KEYRING_URL": "keys.internal", "REDIS_URL": "redis.internal", "NATS_URL": "10.0.0.7",
	}
	for setting, host := range hosts {
		read := func(value string, more map[string]string) (config.Config, error) {
			vars := good()
			vars[setting] = value
			maps.Copy(vars, more)
			return config.Read(environ(vars))
		}
		if _, err := read(plain[setting], nil); err == nil || !strings.Contains(err.Error(), setting+" allows unencrypted connections to "+host) ||
			!strings.Contains(err.Error(), "STAGEDOOR_CLEARTEXT_HOSTS") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", setting, err)
		}
		if _, err := read(plain[setting], map[string]string{"STAGEDOOR_CLEARTEXT_HOSTS": "other," + host}); err != nil {
			t.Errorf("%s, listed: %v", setting, err)
		}
		for _, value := range []string{secure[setting], local[setting]} {
			if _, err := read(value, nil); err != nil {
				t.Errorf("%s: %v", setting, err)
			}
		}
		c, err := read(plain[setting], map[string]string{
			"STAGEDOOR_DEV": "true", "STAGEDOOR_PUBLIC_URL": "http://127.0.0.1:8080", "STAGEDOOR_LISTEN": "127.0.0.1:8080",
		})
		if links := c.ClearText(); err != nil || len(links) != 1 || links[0].Setting != setting || links[0].Host != host {
			t.Errorf("%s in development mode: %v, %v", setting, links, err)
		}
	}
}

// Emails are sent unencrypted only to this machine and to listed hosts, and the message about a mistake has no password.
func TestMailServerIsEncrypted(t *testing.T) {
	t.Parallel()
	const from = "?from=no-reply@example.com"
	for _, c := range []struct{ url, clear, want string }{
		{"smtp://user:hunter2@mail.example.com" + from, "", ""},
		{"smtp+insecure://127.0.0.1:1025" + from, "", ""},
		{"smtp+insecure://mail.internal" + from, "mail.internal", ""},
		{"smtp+insecure://mail.internal" + from, "", "sends emails unencrypted to mail.internal"},
		{"smtp://user:hunter2@mail.example.com", "", "STAGEDOOR_SMTP_URL: the parameter from"},
		{"https://user:hunter2@mail.example.com" + from, "", "begins with none of"},
	} {
		vars := good()
		vars["STAGEDOOR_SMTP_URL"], vars["STAGEDOOR_CLEARTEXT_HOSTS"] = c.url, c.clear
		got, err := config.Read(environ(vars))
		if text := fmt.Sprint(err); (c.want == "") != (err == nil) || c.want != "" && !strings.Contains(text, c.want) || strings.Contains(text, "hunter2") {
			t.Errorf("%s: %v; want %q", c.url, err, c.want)
		}
		if _, ok, _ := got.MailServer(); err == nil && ok != (c.want == "") {
			t.Errorf("%s: there is a server: %t", c.url, ok)
		}
	}
}

// The usage webhook has a secret, and its address is encrypted or in a private network.
func TestUsageWebhookIsSigned(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("s", 32)
	for _, c := range []struct{ url, secret, clear, want string }{
		{"https://billing.example.com/usage", long, "", ""},
		{"http://127.0.0.1:8080/usage", long, "", ""},
		{"http://billing.internal/usage", long, "billing.internal", ""},
		{"http://billing.internal/usage", long, "", "is plain http"},
		{"https://billing.example.com/usage", long[1:], "", "fewer than 32 characters"},
		{"https://billing.example.com/usage", "", "", "fewer than 32 characters"},
		{"", long, "", "has an effect only with STAGEDOOR_USAGE_WEBHOOK"},
		{"billing.example.com", long, "", "is not an address"},
		{"https://user:hunter2@billing.example.com", long, "", "is not an address"},
	} {
		vars := good()
		vars["STAGEDOOR_USAGE_WEBHOOK"], vars["STAGEDOOR_USAGE_WEBHOOK_SECRET"], vars["STAGEDOOR_CLEARTEXT_HOSTS"] = c.url, c.secret, c.clear
		_, err := config.Read(environ(vars))
		if text := fmt.Sprint(err); (c.want == "") != (err == nil) || c.want != "" && !strings.Contains(text, c.want) || strings.Contains(text, "hunter2") {
			t.Errorf("%s, a secret of %d characters: %v; want %q", c.url, len(c.secret), err, c.want)
		}
	}
}
