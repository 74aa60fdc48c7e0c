package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
)

// The document names the program, the standard library, and the packages of the lock file that are not only for
// development, each once.
func TestDocumentListsWhatIsInTheProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, out := filepath.Join(dir, "package-lock.json"), filepath.Join(dir, "sbom.json")
	must.OK(t, os.WriteFile(lock, []byte(`{"packages": {
		"": {"version": "1.0.0"},
		"node_modules/@scope/one": {"version": "1.2.3", "integrity": "sha512-AAEC"},
		"node_modules/two/node_modules/@scope/one": {"version": "1.2.3", "integrity": "sha512-AAEC"},
		"node_modules/vite": {"version": "8.0.0", "dev": true}
	}}`), 0o600))
	program, err := os.Executable()
	must.OK(t, err)
	must.OK(t, run([]string{"-version", "4.5.6", "-npm", lock, "-o", out, program}))
	text, err := os.ReadFile(out)
	must.OK(t, err)
	var got bom
	must.OK(t, json.Unmarshal(text, &got))
	self := got.Metadata.Component
	if self.Name != filepath.Base(program) || self.Version != "4.5.6" || len(self.Hashes) != 1 || len(self.Hashes[0].Content) != 64 {
		t.Errorf("the program is described as %+v", self)
	}
	var purls []string
	for _, c := range got.Components {
		purls = append(purls, c.PURL)
	}
	want := []string{"pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go"), "pkg:npm/%40scope/one@1.2.3"}
	if !slices.Equal(purls, want) {
		t.Errorf("components %q; want %q", purls, want)
	}
	if sum := got.Components[1].Hashes; len(sum) != 1 || sum[0].Content != "000102" {
		t.Errorf("hashes %v", sum)
	}
	if err := run([]string{lock}); err == nil {
		t.Error("a file that is not a program was accepted")
	}
}
