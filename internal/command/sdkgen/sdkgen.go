// Package sdkgen generates the client libraries from openapi/openapi.json, and the code samples that the server adds to
// that document.
//
// Package model reads the document. Packages golang, typescript and python each have a function from the model to
// files, and one that writes a sample of a call; package samples collects the samples. The generated files are
// committed; to change them, change the generator and run make generate. Streams, file transfers and the HTTP layer of
// each library are written by hand. Start at Languages.
package sdkgen

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/golang"
	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
	"github.com/stagedoor/stagedoor/internal/command/sdkgen/python"
	"github.com/stagedoor/stagedoor/internal/command/sdkgen/samples"
	"github.com/stagedoor/stagedoor/internal/command/sdkgen/typescript"
)

// Language generates one client library.
type Language struct {
	// Dir is the library's directory in the repository.
	Dir string
	// Files returns the content of the generated files by path below Dir.
	Files func(*model.Model) (map[string][]byte, error)
	// Versioned lists hand-written files below Dir that contain the version of the library, in quotes, with a regular
	// expression for the text before it.
	Versioned map[string]string
}

// Languages returns all client libraries, and the code samples.
func Languages() []Language {
	return []Language{
		{"client/go", golang.Files, map[string]string{"stagedoor.go": `const Version = `}},
		{"client/typescript", typescript.Files, map[string]string{
			"package.json":      `"name": "@stagedoor/client",\s+"version": `,
			"package-lock.json": `"name": "@stagedoor/client",\s+"version": `,
			"src/transport.ts":  `export const version = `,
		}},
		{"client/python", python.Files, map[string]string{
			"pyproject.toml": `\[project\]\nname = "stagedoor"\nversion = `, "stagedoor/_version.py": `__version__ = `,
		}},
		{"internal/server/api", samples.Files, nil},
	}
}

// Load reads the OpenAPI document and the version of the libraries in the repository at root.
func Load(root string) (*model.Model, error) {
	document, err := os.ReadFile(filepath.Join(root, "openapi", "openapi.json"))
	if err != nil {
		return nil, err
	}
	version, err := os.ReadFile(filepath.Join(root, "client", "VERSION"))
	if err != nil {
		return nil, err
	}
	m, err := model.Load(document)
	if err != nil {
		return nil, err
	}
	m.Version = strings.TrimSpace(string(version))
	return m, nil
}

// Write writes all client libraries into the repository at root and removes generated files that are obsolete. It does
// not touch files that would not change.
func Write(root string, m *model.Model, languages []Language) error {
	for _, l := range languages {
		files, err := l.files(root, m)
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
		files, err := l.files(root, m)
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

// files returns the generated files, and the hand-written ones with the current version.
func (l Language) files(root string, m *model.Model) (map[string][]byte, error) {
	files, err := l.Files(m)
	if err != nil {
		return nil, err
	}
	for name, before := range l.Versioned {
		text, err := os.ReadFile(filepath.Join(root, l.Dir, name))
		if err != nil {
			return nil, err
		}
		version := regexp.MustCompile(`(` + before + `)"[^"]*"`)
		if !version.Match(text) {
			return nil, fmt.Errorf("%s contains no version", name)
		}
		files[name] = version.ReplaceAll(text, []byte(`${1}"`+m.Version+`"`))
	}
	return files, nil
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
