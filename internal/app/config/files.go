package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
)

// fileSuffix ends the name of the variable that has the path of a secret's file instead of the secret.
const fileSuffix = "_FILE"

// fileOf returns the name of the variable with the path of a secret's file; empty if there is none. The name may belong
// to another setting: STAGEDOOR_KMS_TOKEN_FILE is read for every call.
func fileOf(v Variable, all []Variable) string {
	name := v.Name + fileSuffix
	if !v.Secret || slices.ContainsFunc(all, func(other Variable) bool { return other.Name == name }) {
		return ""
	}
	return name
}

// ReadFiles replaces every NAME_FILE of a secret setting by NAME, with the content of the file without its last line
// break. It accepts its own result.
func ReadFiles(environ []string) ([]string, error) {
	var (
		vars = env.ToMap(environ)
		all  = Variables()
		out  []error
		bad  = func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
		read = slices.Clone(environ)
	)
	for _, v := range all {
		name := fileOf(v, all)
		path := vars[name]
		if name == "" || path == "" {
			continue
		}
		read = slices.DeleteFunc(read, func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
		if vars[v.Name] != "" {
			bad("%s and %s are both set: remove one of them", v.Name, name)
			continue
		}
		text, err := os.ReadFile(path)
		value := strings.TrimRight(string(text), "\r\n")
		switch {
		case err != nil:
			bad("%s: %w", name, err)
		case value == "":
			bad("%s names an empty file: write the value of %s into it", name, v.Name)
		default:
			read = append(read, v.Name+"="+value)
		}
	}
	return read, errors.Join(out...)
}
