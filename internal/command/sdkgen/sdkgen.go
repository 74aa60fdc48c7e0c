// Package sdkgen generates the client libraries, and the code samples of the documentation, from openapi/openapi.json.
//
// Package model reads the document. A language is a function from the model to files: Go and TypeScript are here, Python
// is in package python. The generated files are committed; to change them, change the generator and run make generate.
// Streams, file transfers and the HTTP layer of each library are written by hand. Start at Languages.
package sdkgen

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
	"github.com/stagedoor/stagedoor/internal/command/sdkgen/python"
)

// Language generates one client library. Dir is its directory in the repository; Files returns the content of its
// generated files by path below Dir.
type Language struct {
	Dir   string
	Files func(*model.Model) (map[string][]byte, error)
}

// Languages returns all client libraries, and the code samples.
func Languages() []Language {
	return []Language{
		{"client/go", goFiles},
		{"client/typescript", typescriptFiles},
		{"client/python", python.Files},
		{"internal/server/docs/reference", sampleFiles},
	}
}

// Load reads the OpenAPI document.
func Load(openapi []byte) (*model.Model, error) { return model.Load(openapi) }

// Write writes all client libraries into the repository at root and removes generated files that are obsolete. It does
// not touch files that would not change.
func Write(root string, m *model.Model, languages []Language) error {
	for _, l := range languages {
		files, err := l.Files(m)
		if err != nil {
			return fmt.Errorf("%s: %w", l.Dir, err)
		}
		if err := l.write(root, files); err != nil {
			return err
		}
	}
	return nil
}

// Stale returns the generated files that Write would change or remove.
func Stale(root string, m *model.Model, languages []Language) ([]string, error) {
	var stale []string
	for _, l := range languages {
		files, err := l.Files(m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Dir, err)
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			have, err := os.ReadFile(filepath.Join(root, l.Dir, name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			if string(have) != string(files[name]) {
				stale = append(stale, filepath.Join(l.Dir, name))
			}
		}
		old, err := l.obsolete(root, files)
		if err != nil {
			return nil, err
		}
		stale = append(stale, old...)
	}
	return stale, nil
}

func (l Language) write(root string, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(root, l.Dir, name)
		if have, err := os.ReadFile(path); err == nil && string(have) == string(files[name]) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return err
		}
	}
	old, err := l.obsolete(root, files)
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

// obsolete returns the generated files below the language's directory that are not in files.
func (l Language) obsolete(root string, files map[string][]byte) ([]string, error) {
	var old []string
	top := filepath.Join(root, l.Dir)
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); name == "node_modules" || name == "dist" || name == "build" || name == "__pycache__" {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(top, path)
		if err != nil || files[filepath.ToSlash(name)] != nil {
			return err
		}
		generated, err := isGenerated(path)
		if generated {
			old = append(old, filepath.Join(l.Dir, name))
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return old, err
}

// isGenerated reports whether the first line of a file has the header of generated files.
func isGenerated(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	start := make([]byte, 256)
	n, _ := f.Read(start)
	first, _, _ := strings.Cut(string(start[:n]), "\n")
	return strings.Contains(first, model.Header), nil
}
