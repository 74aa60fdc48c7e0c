// Package manifest reads the folder of YAML files that describes one platform, and makes sure that it has the form that
// manifest.schema.json gives. What it means is the business of package catalog.
//
// Start with Read. Every fault names its file and line; one file's faults leave the others readable.
package manifest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFiles bounds a folder.
const maxFiles = 200

// sections are the files beside the resources, and what each may hold.
var sections = map[string][]string{
	"upstream.yaml": {"upstream", "session", "signIn", "errors", "pages", "socket", "files"},
	"types.yaml":    {"types"},
	"events.yaml":   {"events"},
}

// Read reads a folder. Files with faults are left out of the document; without a sound upstream.yaml there is none.
func Read(fsys fs.FS) (*Document, []Fault) {
	files, err := readFiles(fsys)
	if err != nil {
		return nil, []Fault{{Pos{".", 0}, err.Error()}}
	}
	root := &value{kind: yaml.MappingNode, pos: Pos{"upstream.yaml", 1}}
	resources := &value{kind: yaml.MappingNode, pos: Pos{"resources", 0}}
	var faults []Fault
	for _, f := range files {
		v, fault := parse(f.name, f.text)
		if fault != nil {
			faults = append(faults, *fault)
			continue
		}
		if keys, ok := sections[f.name]; ok {
			faults = append(faults, root.merge(v, keys)...)
			continue
		}
		resources.keys = append(resources.keys, key{v.pos, strings.TrimSuffix(path.Base(f.name), ".yaml")})
		resources.items = append(resources.items, v)
	}
	if len(resources.keys) > 0 {
		root.keys = append(root.keys, key{resources.pos, "resources"})
		root.items = append(root.items, resources)
	}
	faults = append(faults, checkSchema(root)...)
	bad := map[string]bool{}
	for _, f := range faults {
		bad[f.File] = true
	}
	if bad["upstream.yaml"] {
		return nil, faults
	}
	root.drop(bad)
	root.get("resources").drop(bad)
	doc, more := decode(root)
	doc.Revision = revision(files)
	doc.Resources = slices.DeleteFunc(doc.Resources, func(r Resource) bool {
		return slices.ContainsFunc(more, func(f Fault) bool { return f.File == r.File })
	})
	return doc, append(faults, more...)
}

type file struct {
	name string
	text []byte
}

// readFiles reads the folder and its folder of resources, in the order of their names.
func readFiles(fsys fs.FS) ([]file, error) {
	var files []file
	for _, dir := range []string{".", "resources"} {
		entries, err := fs.ReadDir(fsys, dir)
		if err != nil && (dir == "." || !errors.Is(err, fs.ErrNotExist)) {
			return nil, fmt.Errorf("read the manifest: %w", err)
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			switch {
			case name == "resources" && e.IsDir(), !e.IsDir() && path.Ext(name) != ".yaml" && path.Ext(name) != ".yml":
				continue
			case e.IsDir(), dir == "." && sections[name] == nil, path.Ext(name) != ".yaml":
				return nil, fmt.Errorf("%s is no part of a manifest: there are upstream.yaml, types.yaml, events.yaml and resources/*.yaml", name)
			case len(files) >= maxFiles:
				return nil, fmt.Errorf("more than %d files", maxFiles)
			}
			text, err := fs.ReadFile(fsys, name)
			if err != nil {
				return nil, fmt.Errorf("read the manifest: %w", err)
			}
			files = append(files, file{name, text})
		}
	}
	if !slices.ContainsFunc(files, func(f file) bool { return f.name == "upstream.yaml" }) {
		return nil, errors.New("there is no upstream.yaml")
	}
	return files, nil
}

// revision is the fingerprint of all files: names and contents, each with its length, so that nothing can move between them.
func revision(files []file) string {
	h := sha256.New()
	for _, f := range files {
		for _, part := range [][]byte{[]byte(f.name), f.text} {
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
			h.Write(part)
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// merge takes the sections of one file into the document.
func (v *value) merge(from *value, allowed []string) []Fault {
	var faults []Fault
	for k, item := range from.members() {
		if !slices.Contains(allowed, k.name) {
			faults = append(faults, Fault{k.pos, fmt.Sprintf("unknown key %q; this file holds %s", k.name, strings.Join(allowed, ", "))})
			continue
		}
		v.keys = append(v.keys, k)
		v.items = append(v.items, item)
	}
	return faults
}

// drop removes what came from files that have faults.
func (v *value) drop(bad map[string]bool) {
	if v == nil {
		return
	}
	kept := &value{}
	for k, item := range v.members() {
		if !bad[item.pos.File] {
			kept.keys = append(kept.keys, k)
			kept.items = append(kept.items, item)
		}
	}
	v.keys, v.items = kept.keys, kept.items
}
