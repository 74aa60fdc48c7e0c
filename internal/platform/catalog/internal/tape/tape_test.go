package tape_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

var limits = tape.Limits{Bytes: 1 << 16, Depth: 20, Nodes: 1 << 12}

// Read rejects documents beyond its limits, and everything that is not JSON.
func TestReadRefusesWhatIsNotJSON(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "", "space": " ", "cut": `{"a":`, "cut text": `"a`, "cut escape": `"\u00`, "comma": `[1,]`, "no comma": `[1 2]`,
		"two": `1 2`, "zero": `01`, "plus": `+1`, "point": `1.`, "exponent": `1e`, "control": "\"\n\"", "utf8": "\"\xff\"", "bom": "\ufeff1",
		"deep": strings.Repeat("[", 21) + strings.Repeat("]", 21), "wide": "[" + strings.Repeat("0,", 5000) + "0]",
		"digits": strings.Repeat("9", 65), "large": `"` + strings.Repeat("a", 1<<16) + `"`, "word": "nul", "name": `{1:2}`, "html": "<html>",
	} {
		if tp, err := tape.Read([]byte(text), limits); !errors.Is(err, tape.ErrSyntax) {
			t.Errorf("%s: %v %v", name, tp, err)
		}
	}
}

// Find compares names after resolving their escapes, and finds members in any order.
func TestFind(t *testing.T) {
	t.Parallel()
	tp, err := tape.Read([]byte(`{"a": 1, "\u0062": {"c": [true, null, "x\ny"]}, "d": "\ud83d\ude00\ud800"}`), limits)
	must.OK(t, err)
	defer tp.Release()
	var hint uint32
	for _, name := range []string{"a", "b", "d", "b", "a", "d"} {
		var ok bool
		if _, hint, ok = tp.Find(tape.Root, name, hint); !ok {
			t.Errorf("%s not found", name)
		}
	}
	if _, _, ok := tp.Find(tape.Root, "c", hint); ok {
		t.Error("c found one level too high")
	}
	at, ok := tp.Get(tape.Root, []string{"b", "c"})
	if !ok || tp.Kind(at) != tape.Array || tp.Len(at) != 3 || tp.Len(tape.Root) != 3 {
		t.Errorf("b.c = %v %v", at, ok)
	}
	if _, ok := tp.Get(tape.Root, []string{"a", "c"}); ok {
		t.Error("Get followed a path through a number")
	}
	at, _ = tp.Get(tape.Root, []string{"d"})
	if got := tp.Text(at); got != "\U0001f600\ufffd" {
		t.Errorf("text = %q", got)
	}
	if got := string(tp.AppendValue(nil, tape.Root)); got != `{"a":1,"b":{"c":[true,null,"x\ny"]},"d":"`+"\U0001f600\ufffd"+`"}` {
		t.Errorf("value = %s", got)
	}
}

// Repeated finds a repeated name at any depth, in small objects and in large ones.
func TestRepeated(t *testing.T) {
	t.Parallel()
	many := `"n0":0`
	for i := 1; i < 40; i++ {
		many += `,"n` + strings.Repeat("x", i) + `":0`
	}
	for text, want := range map[string]string{
		`{"a":1,"b":2}`: "", `{"a":1,"\u0061":2}`: "a", `[{"a":{"b":1,"b":2}}]`: "b", `{` + many + `}`: "", `{` + many + `,"nxx":1}`: "nxx",
	} {
		tp, err := tape.Read([]byte(text), limits)
		must.OK(t, err)
		at, ok := tp.Repeated(tape.Root)
		if ok != (want != "") || ok && tp.Text(at) != want {
			t.Errorf("%s: %v, want %q", text, ok, want)
		}
		tp.Release()
	}
}

// For any text, the tape and the standard library agree on whether it is JSON and on its value.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e-3,"x\u00e9\ud83d\ude00",null,true]}`, `"\ud800"`, `[[[]]]`, `-0`, `1e400`, ` {} `, `{"a":1,"a":2}`} {
		f.Add([]byte(seed))
	}
	wide := tape.Limits{Bytes: 1 << 20, Depth: 5000, Nodes: 1 << 20}
	f.Fuzz(func(t *testing.T, text []byte) {
		tp, err := tape.Read(text, wide)
		if err != nil {
			if json.Valid(text) && !strings.Contains(err.Error(), "UTF-8") && !strings.Contains(err.Error(), "too") {
				t.Fatalf("%q rejected: %v", text, err)
			}
			return
		}
		defer tp.Release()
		if !json.Valid(text) {
			t.Fatalf("%q accepted", text)
		}
		again := tp.AppendValue(nil, tape.Root)
		if !reflect.DeepEqual(decode(t, text), decode(t, again)) {
			t.Fatalf("%q became %q", text, again)
		}
	})
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// Read allocates nothing when tapes are reused.
func TestReadDoesNotAllocate(t *testing.T) { //nolint:paralleltest // it counts the allocations of the whole process
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("the race detector and coverage allocate")
	}
	text := []byte(`{"list":[` + strings.Repeat(`{"id":1,"text":"hello"},`, 50) + `{}]}`)
	allocs := testing.AllocsPerRun(100, func() {
		tp, err := tape.Read(text, limits)
		must.OK(t, err)
		tp.Release()
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}
