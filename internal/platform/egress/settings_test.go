package egress_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Regions are parsed as written and do not print anything about their proxies.
func TestRegionsAreRead(t *testing.T) {
	t.Parallel()
	list, err := egress.ParseRegions(secret.New(" us=http://canary-user:canary%2Cpassword@canary-host:3128,https://canary-host:443/\n\tuk=socks5h://canary-user@10.0.0.1:1080  fr=socks5://[::1]:1080 "))
	must.OK(t, err)
	var got []string
	for _, r := range list {
		got = append(got, fmt.Sprintf("%s %d", r.Name, len(r.Proxies)))
	}
	if strings.Join(got, ", ") != "us 2, uk 1, fr 1" {
		t.Error(got)
	}
	if text := fmt.Sprintf("%v %+v %#v", list, list, list); strings.Contains(text, "canary") || strings.Contains(text, "10.0.0.1") {
		t.Error(text)
	}
	if list, err := egress.ParseRegions(secret.New(" ")); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}

// Errors about invalid regions say what to do and contain no part of a proxy.
func TestWrongRegionsAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://canary:canary@canary:1":                      "part 1 does not start with a region",
		"us=http://canary:1 usa=http://canary:2":             "part 2 does not start with a region",
		"US=http://canary:1":                                 "part 1 does not start with a region",
		"us=http://canary:1 us=http://canary:2":              "region us is listed twice",
		"us=":                                                "proxy 1 of region us has a scheme other than",
		"us=http://canary:1,":                                "proxy 2 of region us has a scheme other than",
		"us=canary:3128":                                     "proxy 1 of region us has a scheme other than",
		"us=ftp://canary:1":                                  "proxy 1 of region us has a scheme other than",
		"us=http://canary":                                   "proxy 1 of region us lacks a host or a port",
		"us=http://:3128":                                    "proxy 1 of region us lacks a host or a port",
		"us=http://canary:0":                                 "proxy 1 of region us lacks a host or a port",
		"us=http://canary:65536":                             "proxy 1 of region us lacks a host or a port",
		"us=http://canary:canary":                            "proxy 1 of region us is not a URL",
		"us=http://u:canary%zz@canary:1":                     "proxy 1 of region us is not a URL",
		"us=http://canary:1/path":                            "proxy 1 of region us has something after its port",
		"us=http://canary:1?canary":                          "proxy 1 of region us has something after its port",
		"us=http://canary:1,http://CANARY:1":                 "proxy 2 of region us is already in region us",
		"us=socks5://canary:1 uk=socks5h://canary:1":         "proxy 1 of region uk is already in region us",
		"us=http://a:1@canary:1 uk=http://a:2@canary:1":      "proxy 1 of region uk is already in region us",
		"us=socks5://u:" + strings.Repeat("c", 256) + "@c:1": "proxy 1 of region us has a user or password of more than 255 bytes",
	} {
		_, err := egress.ParseRegions(secret.New(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(strings.ToLower(err.Error()), "canary") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestOriginsAreRead(t *testing.T) {
	t.Parallel()
	if _, err := egress.ParseOrigins("https://platform.example", "http://127.0.0.1:18200/", "https://Cdn.platform.example:8443"); err != nil {
		t.Error(err)
	}
	for _, text := range []string{
		"", "platform.example", "ftp://platform.example", "https://", "https://user@platform.example", "https://platform.example/path",
		"https://platform.example?x", "https://platform.example#x", "https://*.platform.example", "https://[::1]", "https://plätform.example", "wss://platform.example",
	} {
		if _, err := egress.ParseOrigins(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
