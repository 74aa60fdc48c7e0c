package sdkgen_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen"
	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// sharedPython returns the Python library of the committed document, generated once for all tests.
var sharedPython = sync.OnceValues(func() (map[string][]byte, error) {
	m, err := shared()
	if err != nil {
		return nil, err
	}
	return language("client/python").Files(m)
})

// language returns the language with this directory.
func language(dir string) sdkgen.Language {
	languages := sdkgen.Languages()
	return languages[slices.IndexFunc(languages, func(l sdkgen.Language) bool { return l.Dir == dir })]
}

func pythonFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := sharedPython()
	must.OK(t, err)
	return files
}

func TestPythonIsWellFormatted(t *testing.T) {
	t.Parallel()
	files := pythonFiles(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := string(files[name])
		if !strings.HasPrefix(text, "# "+model.Header+"\n\"\"\"") {
			t.Errorf("%s does not start with the header and a docstring", name)
		}
		if !strings.HasSuffix(text, "\n") || strings.Contains(text, "\n\n\n\n") {
			t.Errorf("%s has too many blank lines or no line break at its end", name)
		}
		for n, line := range strings.Split(text, "\n") {
			if len([]rune(line)) > 120 || strings.TrimRight(line, " \t") != line {
				t.Errorf("%s:%d is too long or has trailing space: %s", name, n+1, line)
			}
		}
	}
}

func TestPythonHasEveryMethodByItsPythonName(t *testing.T) {
	t.Parallel()
	files := pythonFiles(t)
	for path, lines := range map[string][]string{
		"stagedoor/resources/mass_messages.py": {"class MassMessagesResource(Resource):", `_resource = "massMessages"`, "def get_statistics("},
		"stagedoor/resources/messages.py":      {"def list_all(", `self._write("send", params, options)`, `self._read("get", params, options)`},
		"stagedoor/groups/webhooks.py":         {`self._change("DELETE", f"/v1/accounts/{path_segment(account_id)}/webhook", `},
		"stagedoor/groups/connect.py":          {`case="snake"`, "key=True"},
		"stagedoor/params.py":                  {"    from_: ", "    chat_id: str\n"},
		"stagedoor/events.py":                  {`    event: Literal["message"]`, "Event = Union["},
		"stagedoor/problems.py":                {`    "quota-exceeded",`, `    "sdk:call",`},
	} {
		for _, line := range lines {
			if !bytes.Contains(files[path], []byte(line)) {
				t.Errorf("%s lacks %q", path, line)
			}
		}
	}
	methods := 0
	for path, text := range files {
		if strings.HasPrefix(path, "stagedoor/resources/") {
			methods += bytes.Count(text, []byte("return self._read(")) + bytes.Count(text, []byte("return self._write("))
		}
	}
	if methods != 250 {
		t.Errorf("got %d methods, want 250", methods)
	}
}
