package archtest

import "strings"

// unmoved maps a package that is not in its group's folder yet to its group.
var unmoved = map[string]string{}

// placed is the path that a package will have.
func placed(path string) string {
	name, _, _ := strings.Cut(path, "/")
	if g := unmoved[name]; g != "" {
		return g + "/" + path
	}
	return path
}
