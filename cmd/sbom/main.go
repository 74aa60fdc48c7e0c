// Sbom writes the bill of materials of a program in CycloneDX format:
//
//	sbom [-npm package-lock.json] [-version 1.2.3] [-o FILE] PROGRAM
//
// It lists what the go command recorded in the program, which is exactly what was linked, and the packages of a dashboard
// that is embedded in it.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// bom is a document of CycloneDX 1.6.
type bom struct {
	Format   string `json:"bomFormat"`
	Spec     string `json:"specVersion"`
	Version  int    `json:"version"`
	Metadata struct {
		Component component `json:"component"`
	} `json:"metadata"`
	Components []component `json:"components"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func newComponent(kind, purlType, name, version string) component {
	purl := "pkg:" + purlType + "/" + strings.ReplaceAll(name, "@", "%40") + "@" + version
	return component{Type: kind, Ref: purl, Name: name, Version: version, PURL: purl}
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("sbom", flag.ContinueOnError)
	version := flags.String("version", "", "the `version` of the program, and of its modules that were built from the same commit")
	npm := flags.String("npm", "", "a package-lock.json `file`, whose packages are embedded")
	out := flags.String("o", "/dev/stdout", "the `file` to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("usage: sbom [-npm FILE] [-version VERSION] [-o FILE] PROGRAM")
	}
	doc, err := describe(flags.Arg(0), *version)
	if err != nil {
		return err
	}
	if *npm != "" {
		packages, err := readLock(*npm)
		if err != nil {
			return err
		}
		doc.Components = append(doc.Components, packages...)
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	return os.WriteFile(*out, append(text, '\n'), 0o644) //nolint:gosec // it is published
}

// describe lists the modules of a program.
func describe(program, version string) (*bom, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", program, err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	doc := &bom{Format: "CycloneDX", Spec: "1.6", Version: 1}
	if version == "" {
		version = info.Main.Version
	}
	doc.Metadata.Component = newComponent("application", "golang", info.Main.Path, version)
	doc.Metadata.Component.PURL += "#" + strings.TrimPrefix(info.Path, info.Main.Path+"/")
	doc.Metadata.Component.Name = strings.TrimSuffix(filepath.Base(program), ".exe")
	doc.Metadata.Component.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum[:])}}
	doc.Components = []component{newComponent("library", "golang", "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		if module.Version == "" || module.Version == "(devel)" {
			module.Version = version
		}
		c := newComponent("library", "golang", module.Path, module.Version)
		if module.Sum != "" {
			c.Properties = []property{{"go:sum", module.Sum}}
		}
		doc.Components = append(doc.Components, c)
	}
	return doc, nil
}

// readLock lists the packages of a lock file that are not only for development.
func readLock(file string) ([]component, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version, Integrity string
			Dev, Optional      bool
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var list []component
	for at, p := range lock.Packages {
		_, name, isPackage := cutLast(at, "node_modules/")
		if !isPackage || p.Dev || p.Optional {
			continue
		}
		c := newComponent("library", "npm", name, p.Version)
		if encoded, ok := strings.CutPrefix(p.Integrity, "sha512-"); ok {
			sum, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				return nil, fmt.Errorf("%s: integrity of %s: %w", file, name, err)
			}
			c.Hashes = []hash{{"SHA-512", hex.EncodeToString(sum)}}
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b component) int { return strings.Compare(a.PURL, b.PURL) })
	return slices.CompactFunc(list, func(a, b component) bool { return a.PURL == b.PURL }), nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], path.Clean(s[i+len(sep):]), true
	}
	return s, "", false
}
