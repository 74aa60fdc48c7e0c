package sdkgen_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// sharedTypeScript returns the TypeScript library of the committed document, generated once for all tests.
var sharedTypeScript = sync.OnceValues(func() (map[string][]byte, error) {
	m, err := shared()
	if err != nil {
		return nil, err
	}
	return language("client/typescript").Files(m)
})

func TestTypeScriptIsWellFormatted(t *testing.T) {
	t.Parallel()
	files, err := sharedTypeScript()
	must.OK(t, err)
	messages := string(files["src/gen/resources/messages.ts"])
	for _, want := range []string{
		"// " + model.Header + "\n\nimport type { AccountCalls, Answer } from \"../../calls.js\";\n",
		"/** Messages inside one chat. */\nexport class MessagesResource {\n",
		"  order?: \"desc\" | \"asc\";\n",
		"    return this.#account.call<Message, Options>(\"messages\", \"send\", \"write\", params, options);\n",
		"  listAll(params: MessagesListParams, options?: CallOptions): AsyncGenerator<Message, void, undefined> {\n",
	} {
		if !strings.Contains(messages, want) {
			t.Errorf("resources/messages.ts lacks %q", want)
		}
	}
	for name, text := range files {
		for i, line := range strings.Split(string(text), "\n") {
			if strings.TrimRight(line, " \t") != line || strings.Contains(line, "\t") {
				t.Errorf("%s:%d: trailing space or tab: %q", name, i+1, line)
			}
		}
	}
}

func TestTypeScriptHasEveryMethodAndOperation(t *testing.T) {
	t.Parallel()
	m := load(t)
	files, err := sharedTypeScript()
	must.OK(t, err)
	for _, r := range m.Resources {
		for _, method := range r.Methods {
			if !bytes.Contains(files["src/gen/resources/"+r.Name+".ts"], []byte("\n  "+method.Name+"<Options extends MethodOptions>(")) {
				t.Errorf("%s is missing", method.ID())
			}
		}
	}
	for _, g := range m.Groups {
		for _, o := range g.Operations {
			if o.Form == model.JSON && !bytes.Contains(files["src/gen/groups/"+g.Name+".ts"], []byte("\n  "+o.Name+"(")) {
				t.Errorf("%s.%s is missing", g.Name, o.Name)
			}
		}
	}
}

func TestTypeScriptRejectsUnlistedStreams(t *testing.T) {
	t.Parallel()
	m, err := read() // not the shared model, because the test changes it
	must.OK(t, err)
	m.Groups[0].Operations = append(m.Groups[0].Operations, &model.Operation{ID: "watchSomething", Group: m.Groups[0].Name, Name: "watch", Form: model.Stream})
	if _, err := language("client/typescript").Files(m); err == nil || !strings.Contains(err.Error(), "watchSomething") {
		t.Errorf("got %v, want an error that names the operation", err)
	}
}
