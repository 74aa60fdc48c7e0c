// Package manifest reads the folder of YAML files that describes one platform and validates it against
// manifest.schema.json. It does not interpret the contents; package catalog does.
//
// Start with Read. Every fault names its file and line, and a faulty file does not prevent reading the others.
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

// maxFiles bounds the files of one manifest.
const maxFiles = 200

// sections lists the files other than resources, and the top-level keys that each may have.
var sections = map[string][]string{
	"upstream.yaml": {"upstream", "session", "signIn", "errors", "pages", "socket", "poll", "files"},
	"types.yaml":    {"types"},
	"events.yaml":   {"events"},
}

// Read reads a folder. The document omits files with faults. It is nil if upstream.yaml is missing or faulty.
func Read(fsys fs.FS) (*Document, []Fault) {
	files, err := readFiles(fsys)
	if err != nil {
		return nil, []Fault{{Pos{".", 0}, err.Error()}}
	}
	// All files become one document, because the schema describes the manifest as a whole: the sections of the other
	// files are merged into root, and each resource file is a member of root.resources.
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
			faults = append(faults, root.mergeSections(v, keys)...)
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
	// decode relies on the schema, so it must not see what came from a faulty file.
	bad := map[string]bool{}
	for _, f := range faults {
		bad[f.File] = true
	}
	if bad["upstream.yaml"] {
		return nil, faults
	}
	root.dropFiles(bad)
	root.get("resources").dropFiles(bad)
	doc, more := decode(root)
	logo, fault := readLogo(fsys)
	if fault != nil {
		more = append(more, *fault)
	} else if logo != nil {
		doc.Logo = logo
		files = append(files, file{logoFile, logo})
	}
	doc.Revision = revision(files)
	// decode may find further faults. Omit their resources too.
	doc.Resources = slices.DeleteFunc(doc.Resources, func(r Resource) bool {
		return slices.ContainsFunc(more, func(f Fault) bool { return f.File == r.File })
	})
	return doc, append(faults, more...)
}

type file struct {
	name string
	text []byte
}

// readFiles reads the files of the folder and of its subfolder resources, each in the order of their names. It ignores
// files that are not YAML; readLogo reads the image.
func readFiles(fsys fs.FS) ([]file, error) {
	var files []file
	for _, dir := range []string{".", "resources"} {
		entries, err := fs.ReadDir(fsys, dir)
		if err != nil && (dir == "." || !errors.Is(err, fs.ErrNotExist)) {
			return nil, fmt.Errorf("read the manifest: %w", err)
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			// Skip the subfolder and files that are not YAML. Report other folders, unknown YAML files and *.yml, so
			// that a misnamed file is not silently ignored.
			switch {
			case name == "resources" && e.IsDir(), !e.IsDir() && path.Ext(name) != ".yaml" && path.Ext(name) != ".yml":
				continue
			case e.IsDir(), dir == "." && sections[name] == nil, path.Ext(name) != ".yaml":
				return nil, fmt.Errorf("%s does not belong in a manifest, which has upstream.yaml, types.yaml, events.yaml and resources/*.yaml", name)
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

// revision returns the fingerprint of all files. It hashes the length of each name and content too, so that different
// folders cannot concatenate to the same bytes.
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

// mergeSections adds the top-level keys of one file to the document.
func (v *value) mergeSections(from *value, allowed []string) []Fault {
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

// dropFiles removes the members that came from the given files.
func (v *value) dropFiles(bad map[string]bool) {
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
