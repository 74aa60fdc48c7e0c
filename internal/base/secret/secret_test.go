package secret_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

type nested struct {
	Public  secret.String
	private secret.String
	pointer *secret.String
	list    []secret.String
	table   map[string]secret.String
}

// No verb, log line or document prints a secret, however deeply it is nested.
func TestStringNeverPrints(t *testing.T) {
	t.Parallel()
	const text = "hunter2"
	s := secret.New(text)
	all := nested{
		Public: s, private: s, pointer: &s,
		list: []secret.String{s}, table: map[string]secret.String{"k": s},
	}

	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", all)
		fmt.Fprintf(&out, verb+"\n", &all)
	}
	for _, h := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
		slog.New(h).Info("x", slog.Any("secret", s), slog.Any("all", all), slog.Any("err", fmt.Errorf("with %v: %w", s, errors.ErrUnsupported)))
	}
	must.OK(t, json.NewEncoder(&out).Encode(map[string]any{"s": s, "all": all}))
	for _, form := range []string{text, fmt.Sprintf("%x", text), fmt.Sprintf("%d", []byte(text))} {
		if strings.Contains(out.String(), form) {
			t.Errorf("the secret is printed as %q in:\n%s", form, out.String())
		}
	}
	if s.Reveal() != text {
		t.Errorf("Reveal() = %q", s.Reveal())
	}
}

func TestStringReadsFromJSONAndCompares(t *testing.T) {
	t.Parallel()
	var body struct{ Password secret.String }
	must.OK(t, json.Unmarshal([]byte(`{"password":"hunter2"}`), &body))
	var zero secret.String
	switch {
	case body.Password.Reveal() != "hunter2":
		t.Error("the text was not read")
	case !body.Password.Equal(secret.New("hunter2")), body.Password.Equal(secret.New("hunter3")), body.Password.Equal(zero):
		t.Error("Equal is wrong")
	case !zero.Empty() || body.Password.Empty():
		t.Error("Empty is wrong")
	}
}
