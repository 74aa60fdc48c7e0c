package registry

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// Source is an entry of STAGEDOOR_PLATFORMS: where a platform's manifest is, and its address.
type Source struct {
	ID string
	// Folder holds the manifest; empty for a manifest that is built in.
	Folder string
	// URL replaces the origin in the manifest; empty to keep it.
	URL string
}

// builtin is written instead of a folder for a manifest that is built in.
const builtin = "builtin"

// sandboxID is the id of our own sandbox platform.
const sandboxID = "sandbox"

func (s Source) isSandbox() bool { return s.ID == sandboxID && s.Folder == "" }

var slug = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// ParseSources parses the setting: entries of the form id=folder,url, separated by white space. The folder may be
// builtin, and the URL may be missing. An empty text means the sandbox. sandboxURL is the address of the sandbox if its
// entry names none.
func ParseSources(text, sandboxURL string) ([]Source, error) {
	var list []Source
	var bad []error
	for entry := range strings.FieldsSeq(text) {
		s, err := parseSource(entry)
		switch {
		case err != nil:
			bad = append(bad, err)
		case slices.ContainsFunc(list, func(other Source) bool { return other.ID == s.ID }):
			bad = append(bad, fmt.Errorf("%s is listed twice", s.ID))
		}
		if s.isSandbox() && s.URL == "" {
			s.URL = sandboxURL
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		list = []Source{{ID: sandboxID, URL: sandboxURL}}
	}
	return list, errors.Join(bad...)
}

func parseSource(entry string) (Source, error) {
	id, rest, found := strings.Cut(entry, "=")
	folder, address, _ := strings.Cut(rest, ",")
	switch {
	case !found || folder == "" || !slug.MatchString(id):
		return Source{}, fmt.Errorf("%q is not a platform: write it as id=folder,url or id=builtin", entry)
	case folder == builtin && !slices.Contains(catalog.BuiltinIDs(), id):
		return Source{}, fmt.Errorf("no platform %s is built in: use one of %s, or name a folder", id,
			strings.Join(catalog.BuiltinIDs(), ", "))
	}
	if address != "" {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.Path != "" || u.RawQuery != "" || u.User != nil {
			return Source{}, fmt.Errorf("the address of %s is not an http or https origin: write it as https://platform.example", id)
		}
	}
	if folder == builtin {
		folder = ""
	}
	return Source{ID: id, Folder: folder, URL: address}, nil
}

// Load reads and compiles the manifest. The error wraps catalog.Faults if the manifest has faults.
func (s Source) Load() (*catalog.Catalog, error) {
	if s.Folder == "" {
		return catalog.Builtin(s.ID)
	}
	info, err := os.Stat(s.Folder)
	if err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder with a manifest", s.Folder)
	}
	c, err := catalog.Load(os.DirFS(s.Folder))
	if err != nil {
		return nil, err
	}
	if c.ID != s.ID {
		return nil, fmt.Errorf("the manifest in %s has the id %s: list it as %s=%s", s.Folder, c.ID, c.ID, s.Folder)
	}
	return c, nil
}
