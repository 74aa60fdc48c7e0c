package test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// canary is a secret that was used in a run and must not be found anywhere.
type canary struct {
	kind, value string
	// returned means that responses may contain it, because callers get it from them.
	returned bool
}

// vault holds all secrets of a run.
type vault struct {
	mu   sync.Mutex
	seen map[string]bool
	list []canary
}

// plant adds secrets to search for. It fails the test if one is so short that it could occur by chance.
func (v *vault) plant(t *testing.T, returned bool, kind string, values ...string) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, value := range values {
		if len(value) < 12 {
			t.Fatalf("a canary of kind %s has only %d characters", kind, len(value))
		}
		if v.seen[value] {
			continue
		}
		if v.seen == nil {
			v.seen = map[string]bool{}
		}
		v.seen[value] = true
		v.list = append(v.list, canary{kind, value, returned})
	}
}

// form is an encoding of a secret.
type form struct{ name, text string }

// forms returns the encodings in which a value may occur.
func forms(value string) []form {
	raw := []byte(value)
	quoted, _ := json.Marshal(value)
	again, _ := json.Marshal(string(quoted))
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	numbers := fmt.Sprintf("%d", raw)
	list := []form{
		{"raw", value},
		{"lower case", strings.ToLower(value)},
		{"upper case", strings.ToUpper(value)},
		{"hex", hex.EncodeToString(raw)},
		{"hex", strings.ToUpper(hex.EncodeToString(raw))},
		{"query", url.QueryEscape(value)},
		{"path", url.PathEscape(value)},
		{"html", html.EscapeString(value)},
		{"json", trimQuotes(string(quoted))},
		{"json", trimQuotes(strings.TrimSpace(plain.String()))},
		{"json in json", trimQuotes(trimQuotes(string(again)))},
		{"go", trimQuotes(strconv.Quote(value))},
		{"go", trimQuotes(strconv.QuoteToASCII(value))},
		{"redis", redisQuoted(raw)},
		{"numbers", trimQuotes(numbers)},
		{"numbers", strings.ReplaceAll(trimQuotes(numbers), " ", ",")},
		{"copy", strings.ReplaceAll(value, `\`, `\\`)},
	}
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			list = append(list, form{"base64", alignedBase64(alphabet, raw, shift)})
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(f form) bool {
		again := seen[f.text] || len(f.text) < gateSize
		seen[f.text] = true
		return again
	})
}

// trimQuotes removes the first and the last character.
func trimQuotes(text string) string { return text[1 : len(text)-1] }

// redisQuoted returns bytes in the form of MONITOR.
func redisQuoted(raw []byte) string {
	var b strings.Builder
	for _, c := range raw {
		switch {
		case c == '\\' || c == '"':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// alignedBase64 returns the part of a value's base64 that does not depend on the shift bytes before it.
func alignedBase64(alphabet *base64.Encoding, raw []byte, shift int) string {
	text := alphabet.EncodeToString(append(make([]byte, shift), raw...))
	return text[(8*shift+5)/6 : 8*(shift+len(raw))/6]
}

// gateSize is how many bytes of a needle are compared first.
const gateSize = 8

const gateBits = 18

// needle is one form of one canary.
type needle struct {
	canary
	form
}

// finder searches for many needles in one pass. gate is a bitmap over hashes of their first gateSize bytes.
type finder struct {
	gate  []bool
	byKey map[uint64][]needle
	count int
}

func gateOf(key uint64) uint64 { return key * 0x9E3779B97F4A7C15 >> (64 - gateBits) }

func newFinder(list []canary) *finder {
	f := &finder{gate: make([]bool, 1<<gateBits), byKey: map[uint64][]needle{}}
	for _, c := range list {
		for _, one := range forms(c.value) {
			key := binary.LittleEndian.Uint64([]byte(one.text))
			f.gate[gateOf(key)] = true
			f.byKey[key] = append(f.byKey[key], needle{c, one})
			f.count++
		}
	}
	return f
}

// find calls hit for every needle in the data.
func (f *finder) find(data []byte, hit func(n needle, at int)) {
	for i := 0; i+gateSize <= len(data); i++ {
		key := binary.LittleEndian.Uint64(data[i:])
		if !f.gate[gateOf(key)] {
			continue
		}
		for _, n := range f.byKey[key] {
			if bytes.HasPrefix(data[i:], []byte(n.text)) {
				hit(n, i)
			}
		}
	}
}

// search looks for every secret in every place. Probes with known positions prove that it would find them.
func (s *secretsFixture) search() {
	s.t.Helper()
	list := append(s.engines.stopAndRead(),
		place{"log", "", s.logs.bytes()}, place{"metrics, readiness and lists", "", s.operatorPages.bytes()}, place{"answers", "", s.answers.bytes()})
	known := map[string]bool{}
	probes := []canary{
		{"org", s.owner.ID, true}, {"text in SQL", s.engines.sqlText, true}, {"text on NATS", s.engines.natsText, true}, {"text in Redis", s.engines.commandText, true},
	}
	f := newFinder(append(slices.Clone(s.vault.list), probes...))
	size, kinds, sizes, reported := 0, map[string]int{}, map[string]int{}, map[string]int{}
	for _, one := range list {
		size += len(one.data)
		sizes[one.name] += len(one.data)
		f.find(one.data, func(n needle, at int) {
			if slices.Contains(probes, n.canary) {
				known[n.kind+" in "+one.name+" as "+n.name] = true
				return
			}
			if n.returned && one.name == "answers" {
				return
			}
			what := fmt.Sprintf("a canary of kind %s is in the %s as %s", n.kind, one.name, n.name)
			if reported[what]++; reported[what] <= 3 {
				s.t.Errorf("%s, %s at byte %d: %q", what, one.part, at, one.data[max(0, at-200):min(len(one.data), at+len(n.text)+40)])
			}
		})
	}
	for _, c := range s.vault.list {
		kinds[c.kind]++
	}
	for _, want := range []string{
		"org in database dump as raw", "org in WAL as raw", "org in files of PostgreSQL as raw", "org in statements of PostgreSQL as raw", "org in log as raw",
		"org in Redis MONITOR as raw", "org in Redis keys as raw", "org in JetStream as raw", "org in answers as raw", "org in metrics, readiness and lists as raw",
		"text in SQL in statements of PostgreSQL as raw", "text in SQL in database dump as hex", "text in SQL in database dump as base64", "text in SQL in WAL as raw", "text in SQL in WAL as base64",
		"text on NATS in JetStream as raw", "text in Redis in Redis keys as raw", "text in Redis in Redis MONITOR as raw",
	} {
		if !known[want] {
			s.t.Errorf("the search did not find the probe: %s", want)
		}
	}
	for _, want := range []string{"stagedoord", "/v1/connect/login/{attemptId}"} {
		if !bytes.Contains(s.engines.traces.bytes(), []byte(want)) {
			s.t.Errorf("the traces do not contain %s", want)
		}
	}
	if text := s.logs.bytes(); !bytes.Contains(text, []byte(`"operation":"submitAttempt"`)) || !bytes.Contains(text, []byte("SIGQUIT: quit")) {
		s.t.Error("the log lacks the calls of the run, or the stack dump of a node")
	}
	for _, want := range []string{
		"content", "password", "code", "cookie", "curl", "session", "sign-in under way", "attempt link", "session link", "browser cookie", "manage link", "api key", "admin token",
		"proxy password", "engine password", "email", "kms key", "root key", "derived key", "org key", "data key",
	} {
		if kinds[want] == 0 {
			s.t.Errorf("no canary of kind %s was planted", want)
		}
	}
	s.t.Logf("%d canaries %v in %d forms, searched in %d bytes of %d parts: %v", len(s.vault.list), kinds, f.count, size, len(list), sizes)
}

// A canary is found in every encoding, whatever surrounds it.
func TestSearchFindsEveryForm(t *testing.T) {
	t.Parallel()
	noise := rand.NewChaCha8([32]byte{7})
	for range 50 {
		value := secretText("p\"ä&<\\")
		f := newFinder([]canary{{"probe", value, false}})
		texts := []string{}
		for _, one := range forms(value) {
			texts = append(texts, one.text)
		}
		for shift := range 4 {
			around := make([]byte, shift+3)
			_, _ = noise.Read(around)
			whole := string(around) + value + string(around)
			outer, _ := json.Marshal(map[string]string{"a": strconv.Itoa(shift) + value + "b"})
			texts = append(texts, whole, base64.StdEncoding.EncodeToString([]byte(whole)), base64.URLEncoding.EncodeToString([]byte(whole)),
				hex.EncodeToString([]byte(whole)), string(outer), url.Values{"p": {whole}}.Encode(), fmt.Sprintf("%d", []byte(whole)), fmt.Sprintf("%q", whole))
		}
		for _, text := range texts {
			data := make([]byte, 200+noise.Uint64()%300)
			_, _ = noise.Read(data)
			data = slices.Concat(data, []byte(text), data)
			found := false
			f.find(data, func(needle, int) { found = true })
			if !found {
				t.Fatalf("%q is not found in %q", value, text)
			}
		}
		f.find(make([]byte, 1000), func(n needle, _ int) { t.Fatalf("%q is found in nothing", n.text) })
	}
}
