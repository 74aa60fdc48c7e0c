package egress_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// badURLs are URLs that lead inside our network, or hide such an address (SSRF-URL).
var badURLs = []string{
	// Other schemes, and none.
	"", "hooks.example.com", "//hooks.example.com/", "https:hooks.example.com", "https:/hooks.example.com", "https:///hook", "https://",
	"http://hooks.example.com/", "ftp://hooks.example.com/", "file:///etc/passwd", "gopher://hooks.example.com:443/", "javascript:alert(1)",
	"unix:///var/run/docker.sock", "data:text/plain,x", "jar:https://hooks.example.com!/", "wss://hooks.example.com/", "dict://hooks.example.com:443/",
	// Addresses.
	"https://127.0.0.1/", "https://10.0.0.1/", "https://169.254.169.254/latest/meta-data/", "https://8.8.8.8/", "https://[::1]/", "https://[::]/",
	"https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[fe80::1%25eth0]/", "https://[2606:4700::1111]/", "https://[64:ff9b::7f00:1]/",
	// Addresses as C libraries read them.
	"https://2130706433/", "https://0x7f000001/", "https://017700000001/", "https://127.1/", "https://127.0.1/", "https://0x7f.0.0.1/", "https://0177.0.0.1/",
	"https://127.0.0.1.", "https://0/", "https://1.2.3.04/", "https://a.b.0x7f/", "https://example.123/", "https://[::127.0.0.1]:443/",
	// Addresses in other characters.
	"https://127。0。0。1/", "https://①②⑦.⓪.⓪.①/", "https://１２７.0.0.1/", "https://127%2e0%2e0%2e1/", "https://%31%32%37.0.0.1/", "https://ⓛocalhost/", "https://exämple.com/",
	// Names that resolve inside a network.
	"https://localhost/", "https://LOCALHOST/", "https://foo.localhost/", "https://printer.local/", "https://metadata.google.internal/", "https://metadata/",
	"https://intranet/", "https://postgres.corp/", "https://router.lan/", "https://x.home.arpa/", "https://1.0.0.127.in-addr.arpa/", "https://abcdefghijklmnop.onion/", "https://vault.private/",
	// Credentials, and parts that look like a host.
	"https://user@hooks.example.com/", "https://user:password@hooks.example.com/", "https://@hooks.example.com/", "https://hooks.example.com@127.0.0.1/",
	"https://hooks.example.com:443@127.0.0.1/", "https://127.0.0.1#@hooks.example.com/", "https://hooks.example.com#@127.0.0.1/", `https://hooks.example.com\@127.0.0.1/`,
	`https:\\127.0.0.1\`, "https://hooks.example.com%00.evil.test/", "https://hooks.example.com%2f@127.0.0.1/", "https://hooks.example.com?@127.0.0.1:22/\x00",
	// Ports.
	"https://hooks.example.com:80/", "https://hooks.example.com:22/", "https://hooks.example.com:8443/", "https://hooks.example.com:0443/", "https://hooks.example.com:+443/",
	"https://hooks.example.com:/", "https://hooks.example.com:99999/", "https://hooks.example.com:443:22/", "https://hooks.example.com: 443/",
	// Invalid names.
	"https://example/", "https://example..com/", "https://.example.com/", "https://example.com./", "https://-example.com/", "https://example-.com/", "https://ex_ample.com/", "https://*.example.com/",
	"https://" + strings.Repeat("a", 64) + ".com/", "https://" + strings.Repeat("a.", 127) + "com/", "https://hooks.example.com,127.0.0.1/", "https://hooks.example.com;127.0.0.1/",
	// White space, control characters, fragments, length.
	" https://hooks.example.com/", "https://hooks.example.com/ ", "https://hooks.example.com/a b", "https://hooks.example.com/\r\nHost: 127.0.0.1", "https://hooks.example.com/\t", "https://hooks.example\n.com/",
	"https://hooks.example.com/\u202e", "https://hooks.example.com/#x", "https://hooks.example.com/" + strings.Repeat("a", 2048), "https://hooks.example.com/%zz",
}

var goodURLs = []string{
	"https://hooks.example.com/", "https://hooks.example.com", "https://hooks.example.com:443/stagedoor?team=1&x=%2F", "HTTPS://Hooks.Example.COM/", "https://xn--exmple-cua.com/",
	"https://a.b.c.d.example.co.uk/x", "https://1password.com/", "https://123.example.com/", "https://internal.example.com/", "https://hooks.example.com/@user", "https://hooks.example.com/a:b@c",
	"https://hooks.example.com/?next=https://127.0.0.1/", "https://127.0.0.1.example.com/", "https://hooks.example.com/" + strings.Repeat("a", 2048-len("https://hooks.example.com/")),
}

// Each of these URLs is rejected when it is saved and when it is sent to, with a reason and without a name lookup.
func TestUnsafeURLsAreRefused(t *testing.T) {
	t.Parallel()
	names := newNameserver(t, func(string, bool) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.3.1")} })
	p := egress.Near(egress.PublicConfig{Resolver: names.resolver(), Now: clock.Now}, outside, 443, 0, time.Second)
	if len(badURLs) < 46 {
		t.Errorf("%d rows", len(badURLs))
	}
	codes := map[string]int{}
	for _, raw := range badURLs {
		err := p.CheckURL(t.Context(), raw)
		unsafe, ok := errors.AsType[*problem.Error](err)
		if !ok || unsafe.Kind.Code != problem.UnsafeURL.Code || unsafe.Detail == "" || len(unsafe.Fields) != 1 {
			t.Errorf("%q: %v", raw, err)
			continue
		}
		codes[unsafe.Fields[0].Code]++
		if len(raw) > 8 && strings.Contains(unsafe.Detail, raw) {
			t.Errorf("the detail repeats the URL: %s", unsafe.Detail)
		}
		if _, err := p.Post(t.Context(), raw, nil, nil); !errors.Is(err, egress.FailBlocked) {
			t.Errorf("%q was sent to: %v", raw, err)
		}
	}
	if asked := names.questions(); len(asked) != 0 {
		t.Errorf("looked up: %v", asked)
	}
	for _, code := range []string{"form", "scheme", "host", "port", "userinfo", "length"} {
		if codes[code] == 0 {
			t.Errorf("no URL was rejected with the code %s: %v", code, codes)
		}
	}
	for _, raw := range goodURLs {
		if err := p.CheckURL(t.Context(), raw); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

// badAddresses are addresses that no webhook may reach (SSRF-IP).
var badAddresses = []string{
	// IPv4.
	"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.254", "100.100.100.200", "127.0.0.1", "127.0.0.53", "127.255.255.255",
	"169.254.0.1", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.17.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.31.196.1",
	"192.52.193.1", "192.88.99.1", "192.168.0.1", "192.168.255.255", "192.175.48.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
	"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.254", "255.255.255.255", "168.63.129.16",
	// IPv6.
	"::", "::1", "::2", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
	"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:7f00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:2::1", "2001:10::1", "2001:20::1",
	"2001:db8::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:808:808::1", "2620:4f:8000::1", "3fff::1", "3ffe::1", "5f00::1", "fc00::1", "fd00::1", "fd00:ec2::254", "fd20:ce::254",
	"fe80::1", "fe80::a9fe:a9fe", "febf::1", "fec0::1", "ff02::1", "ff0e::1", "4000::1", "2606:4700:0:0:0:5efe:7f00:1", "2606:4700:0:0:200:5efe:a00:1",
}

var goodAddresses = []string{"1.1.1.1", "8.8.8.8", "93.184.216.34", "172.32.0.1", "172.15.255.255", "100.63.255.255", "100.128.0.1", "192.167.255.255", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001:81b::200e", "2400:cb00::1"}

// A name with such an address is rejected when it is saved, and the address is rejected again when connecting.
func TestInnerAddressesAreRefused(t *testing.T) {
	t.Parallel()
	if len(badAddresses) < 56 {
		t.Errorf("%d rows", len(badAddresses))
	}
	names := newNameserver(t, func(name string, _ bool) []netip.Addr {
		text, _, _ := strings.Cut(name, ".")
		addr, err := netip.ParseAddr(strings.NewReplacer("x", ":", "-", ".").Replace(text))
		if err != nil {
			return nil
		}
		return []netip.Addr{addr}
	})
	host := func(addr string) string {
		return "https://" + strings.NewReplacer(":", "x", ".", "-").Replace(netip.MustParseAddr(addr).StringExpanded()) + ".test/"
	}
	p := egress.Near(egress.PublicConfig{Resolver: names.resolver(), Now: clock.Now}, outside, 443, 0, time.Second)
	network := func(addr netip.Addr) string {
		if addr.Is4() {
			return "tcp4"
		}
		return "tcp6"
	}
	for _, text := range badAddresses {
		addr := netip.MustParseAddr(text)
		if p.Allows(network(addr), netip.AddrPortFrom(addr, 443)) {
			t.Errorf("%s may be connected to", text)
		}
		if err := p.CheckURL(t.Context(), host(text)); !errors.Is(err, problem.UnsafeURL.New("")) {
			t.Errorf("%s may be saved: %v", text, err)
		}
		if addr.Is4() {
			if _, err := p.Post(t.Context(), host(text), nil, nil); !errors.Is(err, egress.FailBlocked) {
				t.Errorf("%s was sent to: %v", text, err)
			}
		}
	}
	for _, text := range goodAddresses {
		addr := netip.MustParseAddr(text)
		if !p.Allows(network(addr), netip.AddrPortFrom(addr, 443)) {
			t.Errorf("%s may not be connected to", text)
		}
		if err := p.CheckURL(t.Context(), host(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for _, port := range []uint16{0, 22, 80, 442, 444, 5432, 6379, 8443} {
			if p.Allows(network(addr), netip.AddrPortFrom(addr, port)) {
				t.Errorf("%s may be connected to on port %d", text, port)
			}
		}
		if p.Allows("udp4", netip.AddrPortFrom(addr, 443)) || p.Allows("unix", netip.AddrPortFrom(addr, 443)) {
			t.Errorf("%s may be reached without TCP", text)
		}
	}
}

// Networks that the operator denies are rejected too.
func TestOperatorsNetworksAreRefused(t *testing.T) {
	t.Parallel()
	p := egress.NewPublic(egress.PublicConfig{Deny: []netip.Prefix{netip.MustParsePrefix("52.0.0.0/8"), netip.MustParsePrefix("2a05:d000::/25")}, Now: clock.Now})
	for text, want := range map[string]bool{"52.1.2.3": false, "53.1.2.3": true, "2a05:d000::1": false, "2a05:d080::1": true, "10.0.0.1": false} {
		addr := netip.MustParseAddr(text)
		network := map[bool]string{true: "tcp4", false: "tcp6"}[addr.Is4()]
		if p.Allows(network, netip.AddrPortFrom(addr, 443)) != want {
			t.Errorf("%s: want allowed %v", text, want)
		}
	}
}

// Any URL that passes the check of its form has a plain public name and port 443.
func FuzzCheckURL(f *testing.F) {
	for _, raw := range append(badURLs, goodURLs...) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		host, port, err := egress.CheckForm(raw)
		if err != nil {
			return
		}
		lower := strings.ToLower(host)
		labels := strings.Split(lower, ".")
		last := labels[len(labels)-1]
		switch {
		case port != "" && port != "443", len(labels) < 2, strings.Trim(lower, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "":
			t.Errorf("%q: %q, %q", raw, host, port)
		case strings.TrimLeft(last, "0123456789") == "" || strings.HasPrefix(last, "0x"), last == "localhost", last == "internal", last == "local":
			t.Errorf("%q: %q", raw, host)
		}
		if _, err := netip.ParseAddr(host); err == nil {
			t.Errorf("%q is an address", raw)
		}
		if !strings.HasPrefix(strings.ToLower(raw), "https://"+lower) || len(raw) > 2048 || strings.ContainsAny(raw, "\\ \r\n\t#") {
			t.Errorf("%q", raw)
		}
	})
}

// Any allowed address is public by all rules of the standard library, and embeds no IPv4 address.
func FuzzAllowedAddress(f *testing.F) {
	for _, text := range append(badAddresses, goodAddresses...) {
		f.Add(netip.MustParseAddr(text).AsSlice())
	}
	p := egress.NewPublic(egress.PublicConfig{Now: clock.Now})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		addr, ok := netip.AddrFromSlice(bytes)
		network := map[bool]string{true: "tcp4", false: "tcp6"}[addr.Is4()]
		if !ok || !p.Allows(network, netip.AddrPortFrom(addr, 443)) {
			return
		}
		if !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.Is4In6() {
			t.Error(addr)
		}
		if addr.Is6() && (bytes[0]&0xe0 != 0x20 || fmt.Sprintf("%x", bytes[:2]) == "2002" || fmt.Sprintf("%x", bytes[:4]) == "20010000") {
			t.Error(addr)
		}
	})
}
