package endpoint_test

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// parsed is one event as a parser of the HTML standard reads it.
type parsed struct{ id, name, data string }

// parseStream reads a stream as the HTML standard defines: lines end with CR, LF or both.
func parseStream(text []byte) (list []parsed) {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	var (
		one  parsed
		data []string
	)
	for lines := bufio.NewReader(bytes.NewReader(text)); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return list // An event that no empty line ends does not count.
		}
		line = strings.TrimSuffix(line, "\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if one.data = strings.Join(data, "\n"); data != nil {
				list = append(list, one)
			}
			one.name, data = "", nil // The id stays.
		case field == "data":
			data = append(data, value)
		case field == "event":
			one.name = value
		case field == "id" && !strings.Contains(value, "\x00"):
			one.id = value
		}
	}
}

// A parser reads back exactly what was written, whatever the name, id and data are. What the format cannot carry is
// rejected.
func FuzzFrames(f *testing.F) {
	f.Add("message", "00000000000001", []byte(`{"id":"evt_1","data":{"text":"a\nb"}}`))
	f.Add("a", "", []byte("one\ntwo\r\nthree\rfour"))
	f.Add("a\nid: 7", "1", []byte("x"))
	f.Add("a", "1\n\nevent: problem", []byte("x"))
	f.Add("a", "1\x00", []byte("x"))
	f.Add("heartbeat", "", []byte("\n\nevent: problem\ndata: {}\n\n"))
	f.Add("a", "b", []byte("\r"))
	f.Add("a", "b", []byte("\r\r\n"))
	f.Add(" a", " b", []byte(" c"))
	f.Add("é😀 ", "1", []byte("\ufeff"))
	f.Fuzz(func(t *testing.T, name, id string, data []byte) {
		text, err := endpoint.AppendMessage(nil, endpoint.Message{Name: name, ID: id, Data: data})
		if strings.ContainsAny(name+id, "\r\n\x00") {
			if err == nil || len(text) > 0 {
				t.Fatalf("%q was written", text)
			}
			return
		}
		must.OK(t, err)
		// The next event must not be affected by the one before.
		text, err = endpoint.AppendMessage(text, endpoint.Message{Name: "next", ID: "2", Data: []byte("{}")})
		must.OK(t, err)
		lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
		want := []parsed{{id, name, lines}, {"2", "next", "{}"}}
		if got := parseStream(text); len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Fatalf("%q became %+v", text, got)
		}
	})
}
